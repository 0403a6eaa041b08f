"""Whatever the cache has, has lost, or says on the way, a walk shows exactly what the viewer's authors wrote."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from feedkit.errors import Unavailable
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.source import TOP
from timeline_service.viewer import Context

from .histories import VIEWER, error_of, posts, unhurried, walk
from .world import FOLLOWEES, STALENESS, STRANGER, Reader, World

MOST = 120
_AUTHORS = (*FOLLOWEES, VIEWER.id, STRANGER)
_ids = st.integers(1, MOST)
_horizons = st.just(0) | _ids
_places = ("timeline", "timeline", "recents", "recents", "own", "context")


def flat(pages: list[list[int]]) -> list[int]:
    """All posts of a walk."""
    return [post for page in pages for post in page]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A world, whose cache has some of what there is, down to some horizon."""
    # One byte for each id. Collections of Hypothesis have five elements as a rule, in which nothing is ever cut off.
    count = draw(st.integers(0, MOST))
    kinds = draw(st.binary(min_size=count, max_size=count))
    written = {post: _AUTHORS[kind % len(_AUTHORS)] for post, kind in enumerate(kinds, 1) if kind % 5}
    gone = draw(st.sampled_from([0, 20, 200]))
    deleted = {post: author for post, author in written.items() if kinds[post - 1] < gone}
    followees = draw(st.just(set(FOLLOWEES)) | st.sets(st.sampled_from(FOLLOWEES)))
    world = World({post: author for post, author in written.items() if post not in deleted}, followees)
    world.deleted = deleted
    world.suspended = draw(st.sets(st.sampled_from(_AUTHORS), max_size=2) | st.just(set[int]()))
    world.pulled = draw(st.frozensets(st.sampled_from(_AUTHORS), max_size=3) | st.none())
    for place in draw(st.lists(st.sampled_from(_places), max_size=12)):
        changed(draw, world, place)()
    return world


def changed(draw: st.DrawFn, world: World, place: str) -> Callable[[], None]:
    """A change of one place of the cache to something that it may hold in this world."""
    horizon = draw(_horizons)
    match place:
        case "timeline":
            more = draw(st.frozensets(_ids, max_size=10))
            return lambda: world.materialise(horizon, more)
        case "recents":
            author = draw(st.sampled_from(FOLLOWEES))
            return lambda: world.list_posts("recents", author, horizon)
        case "own":
            return lambda: world.list_posts("own", VIEWER.id, horizon)
        case _:
            return lambda: setattr(world, "context", world.true_context)


@st.composite
def events(draw: st.DrawFn, world: World) -> Callable[[], None]:
    """Something that happens while the world is read."""
    return draw(
        st.sampled_from(
            [
                lambda: None,
                changed(draw, world, draw(st.sampled_from(_places))),
                world.evict,
                lambda: world.away.add("redis"),
                lambda: world.away.discard("redis"),
                lambda: setattr(world, "pulled", frozenset(FOLLOWEES)),
                lambda: setattr(world, "pulled", None),
            ]
        )
    )


# --- the worked example ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 20])
@pytest.mark.parametrize(("position", "expected"), [(TOP, [5, 4, 3, 2, 1]), (3, [2, 1])])
async def test_worked_example_of_pushed_and_pulled_posts(position: int, expected: list[int], size: int) -> None:
    pushed_by, pulled = 1, 5
    world = World({5: pushed_by, 4: pulled, 3: pulled, 2: pulled, 1: pushed_by})
    world.pulled = frozenset({pulled})
    world.warm()
    world.materialise(more={3})  # 3 was pushed before its author was pulled, so both sources have it
    reader = Reader(world)
    assert (await reader.page(VIEWER, position, size)).posts == expected[:size]
    assert flat(await walk(reader, size, start=position)) == expected
    assert not [call for call in world.calls if call.startswith("post")]


# --- every walk equals the oracle ------------------------------------------------------------------------------------


_sizes = st.integers(1, 12)


@unhurried
@given(worlds(), _sizes, st.integers(1, 40))
async def test_a_walk_shows_exactly_the_timeline_whatever_the_cache_has(world: World, size: int, length: int) -> None:
    pages = await walk(Reader(world, list_length=length), size)
    assert flat(pages) == world.expected
    assert len(pages) <= math.ceil(len(world.expected) / size) + 1
    assert all(len(page) == size for page in pages[:-1]), "a page is short only at the end"


@unhurried
@given(st.data(), worlds(), _sizes)
async def test_a_walk_shows_exactly_the_timeline_whatever_happens_to_the_cache(
    data: st.DataObject, world: World, size: int
) -> None:
    world.mischief = iter(data.draw(st.lists(events(world), max_size=40)))
    reader = Reader(world, remembered=data.draw(st.integers(1, 4)))

    def pause() -> None:
        reader.clock.now += data.draw(st.sampled_from([0.0, STALENESS]))

    pages = await walk(reader, size, between=pause)
    assert flat(pages) == world.expected
    assert all(len(page) == size for page in pages[:-1]), "a page is short only at the end"


@unhurried
@given(worlds(), _ids, _sizes)
async def test_a_walk_may_begin_anywhere(world: World, start: int, size: int) -> None:
    pages = await walk(Reader(world), size, start=start)
    assert flat(pages) == [post for post in world.expected if post < start]


# --- what a read costs -----------------------------------------------------------------------------------------------


def feed(count: int, **settings: Any) -> World:
    """A world in which all followees and the viewer write by turns; author 5 is pulled."""
    authors = (*FOLLOWEES, VIEWER.id)
    world = World({post: authors[post % len(authors)] for post in range(1, count + 1)}, **settings)
    world.pulled = frozenset({5})
    return world


async def page(reader: Reader, position: int = TOP, size: int = 20) -> list[int]:
    """The posts of a page, with no call before it remembered."""
    reader.world.calls.clear()
    return (await reader.page(VIEWER, position, size)).posts


async def test_a_warm_read_is_one_round_trip_and_asks_nobody() -> None:
    world = feed(100)
    world.warm()
    reader = Reader(world)
    await page(reader)
    assert (await page(reader), world.calls) == (world.expected[:20], ["redis glance"])
    assert (await page(reader, 50), world.calls) == (world.expected[51:71], ["redis glance"])
    assert world.wished == []


async def test_recents_that_are_not_in_memory_are_one_round_trip_more() -> None:
    world = feed(100)
    world.pulled = frozenset({4, 5})
    world.warm()
    reader = Reader(world)
    assert await page(reader) == world.expected[:20]
    assert world.calls == ["redis glance", "redis recents"]
    reader.clock.now += STALENESS
    assert await page(reader) == world.expected[:20]
    assert world.calls == ["redis glance", "redis recents"]


async def test_a_cold_read_is_pulled_at_once_and_wishes_for_a_rebuild() -> None:
    world = feed(100)
    assert await page(Reader(world)) == world.expected[:20]
    assert world.calls == ["redis glance", "redis lease", "graph context", "redis fill", "post pull 5"]
    assert world.wished == [VIEWER.id]


async def test_what_is_absent_is_filled_in_for_the_next_read() -> None:
    world = feed(100)
    world.materialise()
    await page(Reader(world))
    assert world.context == Context(sorted(FOLLOWEES))
    assert world.lists.keys() == {("own", VIEWER.id), ("recents", 5)}
    reader = Reader(world)
    await page(reader)
    assert await page(reader) == world.expected[:20]
    assert world.calls == ["redis glance"]


async def test_a_timeline_that_was_lost_is_wished_for_on_any_page() -> None:
    world = feed(100)
    world.warm()
    world.timeline = None
    assert await page(Reader(world), 50) == world.expected[51:71]
    assert world.wished == [VIEWER.id]


async def test_below_the_horizon_everything_is_pulled_with_one_call() -> None:
    world = feed(100)
    world.warm(horizon=60)
    reader = Reader(world)
    assert await page(reader, 50) == world.expected[51:71]
    assert world.calls == ["redis glance", "post pull 5"]
    assert await page(reader, 70) == world.expected[31:51]
    assert sorted(world.calls) == ["post pull 5", "redis glance", "redis recents"]
    assert world.wished == [], "further down it ends somewhere"


async def test_a_timeline_too_short_for_the_first_page_is_wished_for() -> None:
    world = feed(100)
    world.warm(horizon=90)
    assert await page(Reader(world)) == world.expected[:20]
    assert world.wished == [VIEWER.id]


def spammed(posts_of_spammer: int, **settings: Any) -> World:
    """A world whose newest posts are all of author 1, who is suspended."""
    world = feed(100, **settings)
    world.posts |= posts(*range(101, 101 + posts_of_spammer), author=1)
    world.suspended = {1}
    return world


async def test_a_page_is_full_though_all_the_newest_posts_are_of_a_suspended_followee() -> None:
    world = spammed(700)
    world.warm()
    reader = Reader(world)
    assert await page(reader) == world.expected[:20]
    assert len(reader.hydration.calls) == 2
    assert sorted(world.calls) == ["redis glance", "redis recents", "redis timeline"]
    assert (world.wished, len(world.expected)) == ([], 80)


async def test_where_a_timeline_has_nothing_but_posts_of_a_suspended_followee_the_others_are_pulled() -> None:
    world = spammed(700)
    world.warm(horizon=100)
    reader = Reader(world)
    assert await page(reader) == world.expected[:20]
    assert (len(reader.hydration.calls), world.calls.count("post pull 4")) == (2, 1)
    assert world.wished == [], "rebuilt, it would be the same"


@pytest.mark.parametrize("suspended", [{1}, {1, 2, 4, 5}, {1, VIEWER.id}, {*FOLLOWEES, VIEWER.id}])
@pytest.mark.parametrize("cached", ["everything", "above a horizon", "nothing"])
async def test_a_walk_past_suspended_followees_is_right_and_ends(suspended: set[int], cached: str) -> None:
    world = spammed(700)
    world.suspended = suspended
    if cached != "nothing":
        world.warm(horizon=0 if cached == "everything" else 400)
    pages = await walk(Reader(world, list_length=50), 20)
    assert flat(pages) == world.expected
    assert len(pages) <= math.ceil(len(world.expected) / 20) + 1


async def test_a_timeline_that_has_everything_is_not_wished_for_however_short() -> None:
    world = feed(10)
    world.warm()
    assert await page(Reader(world)) == world.expected
    assert (world.wished, world.calls) == ([], ["redis glance", "redis recents"])


async def test_the_newest_part_of_a_timeline_is_read_on_where_it_does_not_fill_the_page() -> None:
    world = feed(100)
    world.deleted = posts(*range(101, 200))
    world.warm()
    assert await page(Reader(world), size=5) == world.expected[:5]
    assert world.calls.count("redis timeline") == 1
    assert "post" not in " ".join(world.calls)


async def test_a_horizon_that_sinks_during_a_read_hides_no_post_of_others() -> None:
    world = feed(100)
    world.deleted = posts(*range(101, 200))
    world.warm(horizon=95)
    world.list_posts("recents", 5, horizon=95)
    world.mischief = iter([lambda: None, lambda: world.materialise(0)])
    assert await page(Reader(world), size=20) == world.expected[:20]
    assert world.calls.count("redis timeline") == 1


async def test_who_follows_nobody_needs_no_timeline_and_none_is_wished_for() -> None:
    world = World(posts(*range(1, 30), author=VIEWER.id) | {100: 1}, followees=[])
    reader = Reader(world, list_length=50)
    assert flat(await walk(reader, 20)) == world.expected
    assert await page(reader) == world.expected[:20]
    assert (world.calls, world.wished) == (["redis glance"], [])


async def test_where_everything_is_pulled_only_the_context_is_cached() -> None:
    world = feed(100)
    world.warm()
    world.pulled = None
    assert await page(Reader(world)) == world.expected[:20]
    assert (world.calls, world.wished) == (["redis context", "post pull 5"], [])


# --- what is away ----------------------------------------------------------------------------------------------------


async def test_without_the_cache_everything_comes_from_the_truth() -> None:
    world = feed(100)
    world.warm()
    world.away = {"redis"}
    assert await page(Reader(world)) == world.expected[:20]
    assert world.calls == ["graph context", "post pull 5"]
    assert world.wished == []


async def test_without_the_cache_in_the_middle_of_a_read_recents_are_pulled() -> None:
    world = feed(100)
    world.warm()
    world.mischief = iter([lambda: None, lambda: world.away.add("redis")])
    assert await page(Reader(world)) == world.expected[:20]
    assert world.calls == ["redis glance", "post pull 1"]


async def test_a_warm_read_needs_neither_graph_nor_post() -> None:
    world = feed(100)
    world.warm()
    world.away = {"graph", "post"}
    assert await page(Reader(world)) == world.expected[:20]


@pytest.mark.parametrize("missing", ["graph", "post"])
async def test_without_cache_and_truth_the_read_fails(missing: str) -> None:
    world = feed(100)
    world.away = {"redis", missing}
    error = await error_of(Reader(world).page(VIEWER, TOP, 20))
    assert isinstance(error, Unavailable)
    assert error.metadata == {"dependency": missing}


async def test_a_page_ends_at_the_horizon_where_the_truth_is_away() -> None:
    world = feed(100)
    world.warm(horizon=90)
    world.away = {"post"}
    reader = Reader(world)
    first = await reader.page(VIEWER, TOP, 20)
    assert (first.posts, first.next_position) == (world.expected[:10], 91)
    assert isinstance(await error_of(reader.page(VIEWER, 91, 20)), Unavailable)
