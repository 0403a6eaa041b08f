"""Hydration through real processes: every outcome, bad requests, and dependencies that are down or hang."""

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial

import asyncpg
import pytest
from collector import Collector
from devmesh.mesh import Mesh
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feedkit import key_scripts, keys, redis
from feedkit.errors import FeedError, InvalidArgument

from .conftest import Services

pytestmark = pytest.mark.integration

POST, FEED = hydrate_pb2.SURFACE_POST, hydrate_pb2.SURFACE_FEED
UNKNOWN = 4_611_686_018_427_387_904
"""An id that nobody makes for decades."""


@contextmanager
def down(mesh: Mesh, process: str) -> Generator[None]:
    """A process that has been killed, until the end of the block."""
    mesh.kill(process)
    try:
        yield
    finally:
        mesh.restart(process)


@contextmanager
def hanging(mesh: Mesh, process: str) -> Generator[None]:
    """A process that takes calls and answers none, until the end of the block."""
    pid = mesh.addresses.pids[process]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def unavailable(post_id: int, dependency: str) -> hydrate_pb2.Hydration:
    """The outcome of a post that cannot be loaded now."""
    return hydrate_pb2.Hydration(post_id=post_id, unavailable=hydrate_pb2.Unavailable(dependency=dependency))


def not_found(post_id: int) -> hydrate_pb2.Hydration:
    """The outcome of a post that is not there."""
    return hydrate_pb2.Hydration(post_id=post_id, withheld=hydrate_pb2.WITHHELD_REASON_NOT_FOUND)


async def until_filled(cache: redis.Redis, *some_keys: str, look: Callable[[], Awaitable[object]]) -> None:
    """Look until all keys hold values. Fills come behind the answers, and none while Redis has just come back."""
    for _ in range(200):
        await look()
        [values] = await cache.run(key_scripts.get_many(some_keys))
        if None not in map(keys.payload, values):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"not filled after 10 s: {some_keys}")


async def commands(cache: redis.Redis) -> dict[str, int]:
    """How often Redis was given each command since its statistics were reset, but for asking and resetting."""
    [answer] = await cache.run(("INFO", "commandstats"))
    calls = re.findall(r"cmdstat_(\S+):calls=(\d+)", answer.decode())
    return {name: int(number) for name, number in calls if name not in {"info", "config|resetstat"}}


async def test_a_post_comes_whole_and_with_its_authors_name(services: Services) -> None:
    post = await services.posted(await services.user("Ann"), "hello 👋")
    assert await services.hydrate(post.id) == [
        hydrate_pb2.Hydration(
            post_id=post.id,
            post=hydrate_pb2.HydratedPost(post=post, author_name="Ann", counts=post_pb2.EngagementCounts()),
        )
    ]


async def test_a_post_comes_with_its_counts(services: Services) -> None:
    author, reader = await services.user("Ann"), await services.user("Bob")
    post = await services.posted(author)
    await services.like(reader, post)
    await services.like(author, post)
    await services.posted(reader, "indeed", reply_to=post)
    (answer,) = await services.hydrate(post.id)
    assert answer.post.counts == post_pb2.EngagementCounts(likes=2, replies=1)


async def test_known_unknown_and_repeated_ids_are_answered_once_each_in_order(services: Services) -> None:
    author = await services.user()
    first, second = await services.posted(author), await services.posted(author)
    answer = await services.hydrate(second.id, UNKNOWN, first.id, second.id, UNKNOWN)
    assert [(one.post_id, one.WhichOneof("outcome")) for one in answer] == [
        (second.id, "post"),
        (UNKNOWN, "withheld"),
        (first.id, "post"),
    ]


async def test_a_deleted_post_is_withheld_at_once(services: Services) -> None:
    post = await services.posted(await services.user())
    await services.delete(post)
    assert await services.hydrate(post.id) == [not_found(post.id)]


async def test_a_post_whose_author_is_gone_is_withheld(mesh: Mesh, services: Services) -> None:
    author = await services.user()
    post = await services.posted(author)
    connection = await asyncpg.connect(mesh.addresses.postgres["graph"])
    await connection.execute("DELETE FROM users WHERE id = $1", author)
    await connection.close()
    assert await services.hydrate(post.id) == [
        hydrate_pb2.Hydration(post_id=post.id, withheld=hydrate_pb2.WITHHELD_REASON_AUTHOR_NOT_FOUND)
    ]


async def test_nothing_asked_is_nothing_answered(services: Services) -> None:
    assert await services.hydrate() == []


async def test_the_largest_batch_of_the_largest_posts_fits(services: Services) -> None:
    author = await services.user()
    posts = await asyncio.gather(*(services.posted(author, "👋" * 5000) for _ in range(100)))
    answer = await services.hydrate(*(post.id for post in posts))
    assert [one.post.post.content for one in answer] == ["👋" * 5000] * 100


@pytest.mark.parametrize(
    ("post_ids", "field"),
    [(range(1, 10_001), "post_ids"), ([1, 0], "post_ids[1]"), ([-5], "post_ids[0]")],
    ids=["10,000 ids", "id 0", "negative id"],
)
async def test_bad_ids_are_refused_and_named(services: Services, post_ids: list[int], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await services.hydrate(*post_ids)
    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize("author_ids", [[7], [7, 7, 7]], ids=["fewer", "more"])
async def test_authors_have_to_be_as_many_as_posts_or_none(services: Services, author_ids: list[int]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await services.hydrate(1, 2, author_ids=author_ids)
    assert [violation.field for violation in refused.value.violations] == ["author_ids"]


async def test_a_post_that_somebody_else_wrote_is_not_found(services: Services) -> None:
    ann, bob = await services.user("Ann"), await services.user("Bob")
    post = await services.posted(ann)
    for _ in ("from the truth", "from the cache"):
        (answer,) = await services.hydrate(post.id, author_ids=[bob])
        assert answer.withheld == hydrate_pb2.WITHHELD_REASON_NOT_FOUND


# --- the cache ---------------------------------------------------------------------------------------------------------


async def test_a_page_that_is_cached_is_one_round_trip_to_redis_and_no_call(
    mesh: Mesh, services: Services, cache: redis.Redis
) -> None:
    *authors, viewer = [await services.user(name) for name in ("Ann", "Bob", "Cleo", "Vic")]
    posts = [await services.posted(authors[place % 3]) for place in range(20)]
    await services.mute(viewer, authors[2])
    post_ids, author_ids = [post.id for post in posts], [post.author_id for post in posts]
    page = partial(services.hydrate, *post_ids, author_ids=author_ids, viewer=viewer, surface=FEED)
    cold = await page()
    assert [one.post.post for one in cold if one.HasField("post")] == [
        post for post in posts if post.author_id != authors[2]
    ]
    of_posts = [*map(keys.post, post_ids), *map(keys.counts, post_ids)]
    await until_filled(cache, *of_posts, *map(keys.user, authors), keys.hidden(viewer), look=page)
    with down(mesh, "post"), down(mesh, "graph"):
        await cache.run(("CONFIG", "RESETSTAT"))
        warm = await page()
        assert await commands(cache) == {"mget": 1}
    assert warm == cold


async def test_a_delete_shows_at_the_very_next_look_however_many_are_filling_in(services: Services) -> None:
    post = await services.posted(await services.user())
    for place in range(30):
        fillers = [asyncio.create_task(services.hydrate(post.id)) for _ in range(5)]
        await asyncio.sleep(place / 10_000)  # not waiting for anything: a different moment each time
        await services.delete(post)
        assert await services.hydrate(post.id) == [not_found(post.id)]
        await asyncio.gather(*fillers)
        assert await services.hydrate(post.id) == [not_found(post.id)]
        post = await services.posted(post.author_id)


async def test_what_is_cached_is_shown_though_others_cannot_be_loaded(
    mesh: Mesh, services: Services, cache: redis.Redis
) -> None:
    author = await services.user()
    cached, other = await services.posted(author), await services.posted(author)
    (shown,) = await services.hydrate(cached.id)
    known = [keys.post(cached.id), keys.counts(cached.id), keys.user(author)]
    await until_filled(cache, *known, look=lambda: services.hydrate(cached.id))
    with down(mesh, "post"):
        assert await services.hydrate(cached.id, other.id) == [shown, unavailable(other.id, "post")]


async def test_counts_that_cannot_be_loaded_keep_no_post_from_being_shown(
    mesh: Mesh, services: Services, cache: redis.Redis
) -> None:
    author = await services.user()
    post = await services.posted(author)
    known = [keys.post(post.id), keys.counts(post.id), keys.user(author)]
    await until_filled(cache, *known, look=lambda: services.hydrate(post.id))
    for away in (down, hanging):
        await cache.run(key_scripts.forget(keys.counts(post.id)))
        with away(mesh, "post"):
            (answer,) = await services.hydrate(post.id)
        assert (answer.post.post, answer.post.HasField("counts")) == (post, False)


async def test_without_redis_everything_is_shown_and_it_is_ready(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    shown = await services.hydrate(post.id)
    with down(mesh, "redis"):
        assert await services.hydrate(post.id) == shown
        mesh.terminate("hydrate")
        mesh.restart("hydrate")
        assert await services.hydrate(post.id) == shown


async def test_a_redis_that_hangs_costs_little_and_then_nothing(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    shown = await services.hydrate(post.id)
    with hanging(mesh, "redis"):
        assert await services.hydrate(post.id, seconds=2.0) == shown
        answers = [await services.hydrate(post.id, seconds=0.4) for _ in range(20)]
    assert answers == [shown] * 20


# --- what is withheld from whom ---------------------------------------------------------------------------------------


async def test_a_suspended_author_is_withheld_at_once_from_everybody_and_a_restored_one_shown_at_once(
    services: Services,
) -> None:
    author, viewer = await services.user("Ann"), await services.user("Vic")
    post = await services.posted(author)
    everybody = [(who, surface) for who in (viewer, author, 0) for surface in (POST, FEED)]
    for _ in ("once", "and again"):
        assert {await services.shown(post, *how) for how in everybody} == {"SHOWN"}
        await services.suspend(author)
        assert {await services.shown(post, *how) for how in everybody} == {"AUTHOR_SUSPENDED"}
        await services.restore(author)
    assert {await services.shown(post, *how) for how in everybody} == {"SHOWN"}


async def test_the_posts_of_a_deleted_account_are_withheld_at_once(services: Services) -> None:
    post = await services.posted(await services.user("Ann"))
    assert await services.shown(post, 0) == "SHOWN"
    await services.delete_account(post.author_id)
    assert await services.shown(post, 0) == "AUTHOR_NOT_FOUND"


async def test_a_block_hides_both_from_one_another_at_once_everywhere(services: Services) -> None:
    ann, bob, vic = [await services.user(name) for name in ("Ann", "Bob", "Vic")]
    of_ann, of_bob = await services.posted(ann), await services.posted(bob)
    views = [(of_ann, bob, POST), (of_ann, bob, FEED), (of_bob, ann, POST), (of_bob, ann, FEED)]
    others = [(of_ann, vic, FEED), (of_bob, vic, FEED), (of_ann, ann, FEED), (of_ann, 0, POST)]
    for _ in ("once", "and again"):
        assert {await services.shown(*view) for view in views + others} == {"SHOWN"}
        await services.block(ann, bob)
        assert {await services.shown(*view) for view in views} == {"BLOCKED"}
        assert {await services.shown(*view) for view in others} == {"SHOWN"}
        await services.unblock(ann, bob)


async def test_a_mute_hides_at_once_from_one_side_in_feeds(services: Services) -> None:
    ann, bob = await services.user("Ann"), await services.user("Bob")
    of_ann, of_bob = await services.posted(ann), await services.posted(bob)
    for _ in ("once", "and again"):
        assert await services.shown(of_bob, ann, FEED) == "SHOWN"
        await services.mute(ann, bob)
        assert await services.shown(of_bob, ann, FEED) == "MUTED"
        assert await services.shown(of_bob, ann, POST) == "SHOWN"
        assert await services.shown(of_bob, ann, hydrate_pb2.SURFACE_UNSPECIFIED) == "SHOWN"
        assert await services.shown(of_ann, bob, FEED) == "SHOWN"
        await services.unmute(ann, bob)


async def test_a_block_shows_at_the_very_next_look_however_many_are_filling_in(services: Services) -> None:
    ann, bob = await services.user("Ann"), await services.user("Bob")
    post = await services.posted(bob)
    for place in range(30):
        fillers = [asyncio.create_task(services.shown(post, ann)) for _ in range(5)]
        await asyncio.sleep(place / 10_000)  # not waiting for anything: a different moment each time
        change, expected = ((services.block, "BLOCKED"), (services.unblock, "SHOWN"))[place % 2]
        await change(ann, bob)
        assert await services.shown(post, ann) == expected
        await asyncio.gather(*fillers)
        assert await services.shown(post, ann) == expected


async def test_without_redis_everything_is_withheld_that_has_to_be(mesh: Mesh, services: Services) -> None:
    ann, bob, cem, vic = [await services.user(name) for name in ("Ann", "Bob", "Cem", "Vic")]
    of_ann, of_bob, of_cem = [await services.posted(author) for author in (ann, bob, cem)]
    await services.shown(of_bob, vic)
    with down(mesh, "redis"):
        await services.block(vic, ann)
        await services.mute(vic, bob)
        await services.suspend(cem)
        assert await services.shown(of_ann, vic) == "BLOCKED"
        assert await services.shown(of_bob, vic) == "MUTED"
        assert await services.shown(of_cem, vic) == "AUTHOR_SUSPENDED"


async def test_where_nobody_can_tell_what_is_hidden_only_ones_own_posts_are_shown(
    mesh: Mesh, services: Services, cache: redis.Redis
) -> None:
    ann, bob = await services.user("Ann"), await services.user("Bob")
    mine, other = await services.posted(ann), await services.posted(bob)
    known = [keys.user(ann), keys.user(bob), keys.post(mine.id), keys.post(other.id)]
    await until_filled(cache, *known, look=lambda: services.hydrate(mine.id, other.id))
    with down(mesh, "graph"):
        assert await services.shown(mine, ann) == "SHOWN"
        assert await services.shown(other, ann) == "graph"
        assert await services.shown(other, 0) == "SHOWN", "from nobody nothing is hidden"


async def test_where_more_block_than_can_be_listed_each_of_them_is_withheld(
    mesh: Mesh, services: Services, cache: redis.Redis
) -> None:
    ann, bob, vic = [await services.user(name) for name in ("Ann", "Bob", "Vic")]
    of_ann, of_bob = await services.posted(ann), await services.posted(bob)
    await services.block(ann, vic)
    connection = await asyncpg.connect(mesh.addresses.postgres["graph"])
    many = "INSERT INTO blocks (blocker_id, blocked_id) SELECT 1000000 + n, $1 FROM generate_series(1, 10000) n"
    await connection.execute(many, vic)
    try:
        assert await services.shown(of_ann, vic, POST) == "BLOCKED", "the oldest of 10,001"
        assert await services.shown(of_bob, vic, POST) == "SHOWN"
        known = [keys.user(bob), keys.post(of_bob.id), keys.hidden(vic)]
        await until_filled(cache, *known, look=lambda: services.shown(of_bob, vic, POST))
        assert await services.shown(of_ann, vic, POST) == "BLOCKED"
    finally:
        await connection.execute("DELETE FROM blocks WHERE blocked_id = $1", vic)
        await connection.close()


async def test_what_is_withheld_is_counted_by_reason_and_surface(
    mesh: Mesh, services: Services, collector: Collector
) -> None:
    ann, bob = await services.user("Ann"), await services.user("Bob")
    of_ann, of_bob = await services.posted(ann), await services.posted(bob)
    await services.mute(ann, bob)
    await services.suspend(ann)

    def counted() -> dict[tuple[str, str], int]:
        return {
            (reason, surface): collector.counted("feed.hydrate.withheld", reason=reason, surface=surface)
            for reason in ("not_found", "author_not_found", "author_suspended", "blocked", "muted")
            for surface in ("feed", "post")
        }

    mesh.terminate("hydrate")  # which tells at its end what it has counted until then
    before = counted()
    mesh.restart("hydrate")
    await services.hydrate(of_ann.id, of_bob.id, UNKNOWN, viewer=ann, surface=FEED)
    await services.hydrate(of_ann.id, of_bob.id, UNKNOWN, viewer=ann, surface=POST)
    await services.hydrate(of_ann.id, of_bob.id, UNKNOWN)
    more = {
        ("author_suspended", "feed"): 1,
        ("author_suspended", "post"): 2,
        ("not_found", "feed"): 1,
        ("not_found", "post"): 2,
        ("muted", "feed"): 1,
    }
    expected = {what: number + more.get(what, 0) for what, number in before.items()}
    for _ in range(200):
        if counted() == expected:
            return
        await asyncio.sleep(0.05)
    assert counted() == expected


# --- neighbours that are away ------------------------------------------------------------------------------------------


async def test_without_the_service_post_everything_is_unavailable(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    with down(mesh, "post"):
        answer = await services.hydrate(post.id, UNKNOWN)
    assert answer == [unavailable(post.id, "post"), unavailable(UNKNOWN, "post")]


async def test_without_the_service_graph_posts_that_exist_are_unavailable(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    with down(mesh, "graph"):
        answer = await services.hydrate(post.id, UNKNOWN)
    assert answer == [unavailable(post.id, "graph"), not_found(UNKNOWN)]


@pytest.mark.parametrize("dependency", ["post", "graph"])
async def test_a_dependency_that_hangs_is_told_within_the_deadline(
    mesh: Mesh, services: Services, dependency: str
) -> None:
    post = await services.posted(await services.user())
    with hanging(mesh, dependency):
        answer = await services.hydrate(post.id, seconds=1.0)
    assert answer == [unavailable(post.id, dependency)]


async def test_it_recovers_unaided(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    with down(mesh, "post"):
        (answer,) = await services.hydrate(post.id)
        assert answer.HasField("unavailable")
    for _ in range(200):
        (answer,) = await services.hydrate(post.id)
        if answer.HasField("post"):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the post was still not loaded after 10 s")


async def test_it_stops_in_order_when_asked(mesh: Mesh, services: Services) -> None:
    try:
        assert mesh.terminate("hydrate") == 0
        with pytest.raises(FeedError):
            await services.hydrate(1, seconds=0.5)
    finally:
        mesh.restart("hydrate")
