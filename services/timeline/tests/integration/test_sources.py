"""Home timelines from real Redis: what a warm read costs, what a cold one does, and what becomes of reads on the way.

The process is the real one; its neighbours are their contracts over a truth in memory, and `fanout`'s part in Redis is done
by the tests.
"""

import asyncio
import time
from typing import Any

import pytest
from devmesh.backends.valkey import Valkey
from feed.hydrate.v1 import hydrate_pb2
from feedkit import key_scripts, keys

from .neighbours import Neighbours
from .running import ANN, BOB, DAY_MS, NOVA, STAR, VIEWER, Timeline, started, until

pytestmark = pytest.mark.integration


# --- warm ------------------------------------------------------------------------------------------------------------


async def test_a_warm_read_is_one_round_trip_and_calls_hydrate_alone(timeline: Timeline) -> None:
    await timeline.warm()
    first = await timeline.page()
    assert [shown.post.id for shown in first.posts] == timeline.truth.timeline_of(VIEWER)[:20]
    second = await timeline.page(first.next_page_token)
    assert [shown.post.id for shown in second.posts] == timeline.truth.timeline_of(VIEWER)[20:40]
    assert timeline.round_trips == 2
    assert timeline.truth.calls == {"HydratePosts": 2}


async def test_hydrate_is_told_the_viewer_the_authors_and_that_it_is_for_a_feed(timeline: Timeline) -> None:
    await timeline.warm()
    await timeline.page()
    request = timeline.truth.hydrated[-1]
    assert (request.viewer_id, request.surface) == (VIEWER, hydrate_pb2.SURFACE_FEED)
    assert list(request.author_ids) == [timeline.truth.posts[post] for post in request.post_ids]


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("reason", [reason for reason in hydrate_pb2.WithheldReason.values() if reason])
async def test_whatever_is_withheld_and_why_pages_are_refilled(
    timeline: Timeline, reason: "hydrate_pb2.WithheldReason.ValueType", warm: bool
) -> None:
    if warm:
        await timeline.warm()
    newest = max(timeline.truth.posts)
    timeline.truth.withheld = {BOB: reason, STAR: reason}
    timeline.truth.posts |= dict.fromkeys(range(newest + 1, newest + 150), BOB)
    if warm:
        await timeline.materialise()
    assert await timeline.ids() == timeline.truth.timeline_of(VIEWER)[:20]
    assert await timeline.walk(7) == timeline.truth.timeline_of(VIEWER)


@pytest.mark.parametrize("size", [1, 7, 20, 50])
async def test_a_warm_walk_shows_everything(timeline: Timeline, size: int) -> None:
    await timeline.warm()
    assert await timeline.walk(size) == timeline.truth.timeline_of(VIEWER)
    assert timeline.truth.calls["ListRecentByAuthors"] == 0


async def test_a_walk_goes_on_below_the_horizon_by_pull(timeline: Timeline) -> None:
    await timeline.materialise(horizon=timeline.truth.timeline_of(VIEWER)[49])
    await until(timeline.is_warm)
    timeline.forget()
    assert await timeline.walk(20) == timeline.truth.timeline_of(VIEWER)
    assert timeline.truth.calls["ListRecentByAuthors"] == 3
    assert timeline.truth.rebuilds == []


async def test_of_a_long_history_lists_have_the_newest_and_pull_the_rest(valkey: Valkey, truth: Neighbours) -> None:
    async with started(valkey, truth, own_length=3, recents_length=5) as timeline:
        await timeline.materialise()
        await until(lambda: _is_filled(timeline, keys.own(VIEWER), keys.recents(STAR)))
        (own, recents) = await timeline.direct.run(
            key_scripts.get(keys.own(VIEWER)), key_scripts.get(keys.recents(STAR))
        )
        for raw, author, length in ((own, VIEWER, 3), (recents, STAR, 5)):
            theirs = sorted((post for post, writer in truth.posts.items() if writer == author), reverse=True)
            expected = keys.PostList(tuple(theirs[:length]), theirs[length])
            assert keys.decode_post_list(keys.payload(raw) or b"") == expected
        assert await timeline.walk(7) == truth.timeline_of(VIEWER)


async def _is_filled(timeline: Timeline, *filled: str) -> bool:
    """Whether these keys have values after a read."""
    await timeline.page()
    return all(keys.payload(raw) for raw in await timeline.direct.run(*map(key_scripts.get, filled)))


# --- cold, and lost on the way ---------------------------------------------------------------------------------------


async def test_a_cold_read_is_right_at_once_and_a_rebuild_is_wished_for_once(timeline: Timeline) -> None:
    reads = await asyncio.gather(*(timeline.ids() for _ in range(20)))
    assert reads == [timeline.truth.timeline_of(VIEWER)[:20]] * 20
    await until(lambda: bool(timeline.truth.rebuilds))
    assert timeline.truth.rebuilds == [VIEWER]
    assert timeline.truth.calls["ListRecentByAuthors"] == 20, "one pull each"


async def test_a_wish_that_fanout_does_not_take_is_made_again_by_the_next_read(timeline: Timeline) -> None:
    timeline.truth.away = {"Reconcile"}
    assert await timeline.ids() == timeline.truth.timeline_of(VIEWER)[:20]
    await until(lambda: timeline.truth.calls["Reconcile"] > 0)
    timeline.truth.away = set()

    async def wished() -> bool:
        await timeline.page()
        return timeline.truth.rebuilds == [VIEWER]

    await until(wished)


@pytest.mark.parametrize("lost", ["tl:v1:1", "ctx:v1:1", "own:v1:1", "recents:v1:4", "everything"])
async def test_a_walk_shows_everything_whatever_is_lost_on_the_way(timeline: Timeline, lost: str) -> None:
    await timeline.warm()

    async def lose() -> None:
        await timeline.direct.run(("FLUSHALL",) if lost == "everything" else ("DEL", lost))

    assert await timeline.walk(7, between=lose) == timeline.truth.timeline_of(VIEWER)


async def test_who_follows_nobody_sees_their_own_posts_and_no_rebuild_is_wished_for(timeline: Timeline) -> None:
    timeline.truth.follows[VIEWER] = set()
    assert await timeline.walk(7) == timeline.truth.timeline_of(VIEWER)
    await until(timeline.is_warm)
    timeline.forget()
    assert await timeline.walk(7) == timeline.truth.timeline_of(VIEWER)
    assert timeline.round_trips == timeline.truth.calls["HydratePosts"] == 4
    assert timeline.truth.calls["Reconcile"] == 0


# --- what has to show at once ----------------------------------------------------------------------------------------


async def test_an_unfollow_shows_on_the_next_read(timeline: Timeline) -> None:
    await timeline.warm()
    timeline.truth.follows[VIEWER].discard(ANN)
    await timeline.direct.run(key_scripts.forget(keys.context(VIEWER)))
    assert await timeline.walk(20) == timeline.truth.timeline_of(VIEWER)


async def test_the_unfollow_of_a_pulled_author_shows_on_the_next_read(timeline: Timeline) -> None:
    await timeline.warm()
    timeline.truth.follows[VIEWER].discard(STAR)
    await timeline.direct.run(key_scripts.forget(keys.context(VIEWER)))
    assert await timeline.walk(20) == timeline.truth.timeline_of(VIEWER)


async def test_ones_own_post_shows_on_the_next_read(timeline: Timeline) -> None:
    await timeline.warm()
    mine = max(timeline.truth.posts) + 1
    timeline.truth.posts[mine] = VIEWER
    await timeline.direct.run(key_scripts.add_to_list(keys.own(VIEWER), mine, 50))
    assert (await timeline.ids())[0] == mine


@pytest.mark.parametrize("author", [STAR, NOVA], ids=["known to be pulled", "pulled from this post on"])
async def test_an_announced_post_of_a_pulled_author_shows_on_the_next_read(timeline: Timeline, author: int) -> None:
    timeline.truth.follows[VIEWER].add(NOVA)
    await timeline.warm()
    new = max(timeline.truth.posts) + 1
    timeline.truth.posts[new] = author
    await timeline.direct.run(
        key_scripts.add_to_list(keys.recents(author), new, 200),
        ("PUBLISH", keys.RECENTS_CHANGED, keys.encode_id(author)),
    )

    async def seen() -> bool:
        return (await timeline.ids())[0] == new

    # An announcement is on its way for a moment, and nothing but it can show the post before LONG is over.
    await until(seen)


async def test_who_leaves_the_index_is_read_from_timelines_alone(valkey: Valkey, truth: Neighbours) -> None:
    async with started(valkey, truth, pulled_staleness_seconds=0.4) as timeline:
        await timeline.warm()
        # As `fanout` does it: first everything is pushed, then the author leaves.
        history = sorted(item for item in truth.posts.items() if item[1] == STAR)
        epoch = key_scripts.new_epoch()
        await timeline.direct.run(key_scripts.push_history(VIEWER, epoch, 0, keys.encode_entries(history), 800))
        truth.left = {STAR: 2}

        async def left() -> bool:
            timeline.forget()
            await timeline.direct.run(key_scripts.forget(keys.recents(STAR)))
            assert await timeline.ids() == truth.timeline_of(VIEWER)[:20]
            return not truth.calls["ListRecentByAuthors"] and timeline.round_trips == 1

        await until(left)
        assert await timeline.walk(7) == truth.timeline_of(VIEWER)

        async def announced_late() -> bool:
            await timeline.direct.run(("PUBLISH", keys.RECENTS_CHANGED, keys.encode_id(STAR)))
            return not await left()

        await until(announced_late)
        await until(left)


# --- leases ----------------------------------------------------------------------------------------------------------


GARBAGE: list[tuple[str | bytes | int, ...]] = [
    ("SET", keys.context(VIEWER), b"Vjunk"),
    ("HSET", keys.context(VIEWER), "field", "value"),
    ("SET", keys.own(VIEWER), b"V"),
    ("SET", keys.timeline(VIEWER), bytes(keys.TRAILER_BYTES + 3)),
    ("LPUSH", keys.timeline(VIEWER), "value"),
    ("SET", keys.recents(STAR), b"Vjunk"),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: f"{garbage[0]} {garbage[1]}")
async def test_values_that_were_not_written_by_us_cost_no_answer(timeline: Timeline, garbage: Any) -> None:
    await timeline.warm()
    await timeline.direct.run(("DEL", garbage[1]), garbage)
    await timeline.direct.run(("PUBLISH", keys.RECENTS_CHANGED, keys.encode_id(STAR)))
    assert await timeline.walk(3) == timeline.truth.timeline_of(VIEWER)


async def test_what_somebody_else_is_filling_in_is_left_to_them(timeline: Timeline) -> None:
    await timeline.materialise()
    filled = (keys.context(VIEWER), keys.own(VIEWER), keys.recents(STAR))
    leases = [key_scripts.take_lease(key, key_scripts.new_token()) for key in filled]
    await timeline.direct.run(*leases)
    assert await timeline.ids() == timeline.truth.timeline_of(VIEWER)[:20]
    assert await timeline.direct.run(*map(key_scripts.get, filled)) == [lease[2] for lease in leases]


async def test_what_changes_while_it_is_read_is_not_filled_in(timeline: Timeline) -> None:
    async def unfollow() -> None:
        timeline.truth.follows[VIEWER].discard(ANN)
        await timeline.direct.run(key_scripts.forget(keys.context(VIEWER)))

    timeline.truth.before = {"GetViewerContext": unfollow}
    await timeline.page()
    timeline.truth.before = {}
    assert await timeline.walk(20) == timeline.truth.timeline_of(VIEWER)


# --- activity --------------------------------------------------------------------------------------------------------


async def life_days(timeline: Timeline) -> float:
    """How many days the viewer's timeline will live."""
    return (await timeline.direct.run(("PTTL", keys.timeline(VIEWER))))[0] / DAY_MS


async def test_a_timeline_that_is_read_lives_on(timeline: Timeline) -> None:
    await timeline.materialise()
    await timeline.page()

    async def renewed() -> bool:
        return await life_days(timeline) > 27

    await until(renewed)
    assert timeline.truth.active == [VIEWER]


async def test_a_timeline_whose_viewer_does_not_count_as_active_does_not_live_on(timeline: Timeline) -> None:
    timeline.truth.away = {"RecordActivity"}
    await timeline.materialise()
    await timeline.page()
    await until(lambda: timeline.truth.calls["RecordActivity"] > 0)
    assert await life_days(timeline) <= 1


# --- away ------------------------------------------------------------------------------------------------------------


async def timed(timeline: Timeline) -> float:
    """How many seconds a read takes, which has to be right."""
    began = time.monotonic()
    assert await timeline.ids() == timeline.truth.timeline_of(VIEWER)[:20]
    return time.monotonic() - began


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
async def test_a_redis_that_is_silent_delays_a_read_once_and_then_none(timeline: Timeline, warm: bool) -> None:
    if warm:
        await timeline.warm()
    timeline.relay.freeze()
    assert await timed(timeline) < 0.9
    assert max([await timed(timeline) for _ in range(5)]) < 0.3
    assert timeline.truth.rebuilds == [], "what is not known to be missing is not rebuilt"
    timeline.relay.thaw()
    await timeline.materialise()
    await until(timeline.is_warm)


async def test_without_redis_reads_are_right_and_warm_again_when_it_is_back(timeline: Timeline) -> None:
    await timeline.warm()
    await timeline.relay.stop()
    assert max([await timed(timeline) for _ in range(5)]) < 0.9
    assert await timeline.walk(7) == timeline.truth.timeline_of(VIEWER)
    await timeline.relay.start()
    await until(timeline.is_warm)


async def test_it_starts_without_redis(valkey: Valkey, truth: Neighbours) -> None:
    async with started(valkey, truth, redis_url="redis://127.0.0.1:1/0") as timeline:
        assert await timeline.ids() == truth.timeline_of(VIEWER)[:20]


async def test_while_the_index_is_unknown_everything_is_pulled(valkey: Valkey, truth: Neighbours) -> None:
    truth.away = {"ListPulledAuthors"}
    async with started(valkey, truth) as timeline:
        await timeline.materialise()
        assert await timeline.walk(20) == truth.timeline_of(VIEWER)
        assert truth.calls["ListRecentByAuthors"] == 5
        assert truth.rebuilds == []


async def test_with_threshold_0_everything_is_pulled_and_nobody_is_asked_for_more(
    valkey: Valkey, truth: Neighbours
) -> None:
    async with started(valkey, truth, celebrity_threshold=0) as timeline:
        await timeline.page()
        await until(lambda: truth.active == [VIEWER])
        timeline.forget()
        assert await timeline.ids() == truth.timeline_of(VIEWER)[:20]
        assert (timeline.round_trips, truth.calls) == (1, {"ListRecentByAuthors": 1, "HydratePosts": 1})
        assert truth.rebuilds == []
