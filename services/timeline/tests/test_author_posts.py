"""Lists of authors' posts are read from the cache, or from the truth and then filled in."""

import asyncio
from collections.abc import Collection

import pytest
from feedkit.errors import Unavailable
from timeline_service.author_posts import AT_ONCE, MOST_READ, AuthorPosts, CachedLists
from timeline_service.source import Stretch

from .world import Lists, Post, World

AUTHORS = (1, 2)


def by_turns(count: int) -> World:
    """A world in which two authors write by turns."""
    return World({post: AUTHORS[post % 2] for post in range(1, count + 1)})


def lists_of(world: World, length: int) -> CachedLists:
    """The lists of that world."""
    return CachedLists(Lists(world, "recents"), Post(world), length)


async def test_what_is_cached_is_one_round_trip() -> None:
    world = by_turns(10)
    for author in AUTHORS:
        world.list_posts("recents", author)
    lists = await lists_of(world, 3).get(AUTHORS)
    assert {author: list(posts.post_ids) for author, posts in lists.items()} == {
        1: [2, 4, 6, 8, 10],
        2: [1, 3, 5, 7, 9],
    }
    assert world.calls == ["redis recents"]


async def test_what_is_absent_is_read_author_by_author_and_filled_in() -> None:
    world = by_turns(10)
    world.list_posts("recents", 1)
    lists = await lists_of(world, 3).get(AUTHORS)
    assert list(lists[2].post_ids) == [5, 7, 9]
    assert world.lists["recents", 2] == lists[2]
    assert world.calls == ["redis recents", "redis lease", "post pull 1", "redis fill"]


@pytest.mark.parametrize(("count", "horizon"), [(2, 0), (3, 0), (4, 1), (9, 6)])
async def test_a_list_that_is_all_there_is_says_so(count: int, horizon: int) -> None:
    world = World(dict.fromkeys(range(1, count + 1), 1))
    assert (await lists_of(world, 3).get([1]))[1].horizon == horizon


async def test_a_list_as_long_as_one_pull_says_no_more_than_it_knows() -> None:
    world = World(dict.fromkeys(range(1, 1011), 1))
    posts = (await lists_of(world, 1000).get([1]))[1]
    assert (len(posts.post_ids), posts.horizon) == (1000, 10)


async def test_what_somebody_else_fills_is_read_and_not_filled_in() -> None:
    world = by_turns(10)
    store = Lists(world, "recents")
    lists = CachedLists(store, Post(world), 3)
    world.list_posts("recents", 1, horizon=8)
    assert list((await lists.read([1]))[1].post_ids) == [6, 8, 10]
    assert world.calls == ["redis lease", "post pull 1"]


@pytest.mark.parametrize("fails", [0, 2], ids=["lease", "fill"])
async def test_what_cannot_be_filled_in_is_right_all_the_same(fails: int) -> None:
    world = by_turns(10)
    events = [lambda: None] * fails + [lambda: world.away.add("redis")]
    world.mischief = iter(events)
    assert list((await lists_of(world, 3).read([1]))[1].post_ids) == [6, 8, 10]


async def test_without_the_cache_the_truth_is_not_asked_author_by_author() -> None:
    world = by_turns(10)
    world.away = {"redis"}
    assert await lists_of(world, 3).get(AUTHORS) == {}
    assert world.calls == []


async def test_without_the_truth_there_is_what_is_cached() -> None:
    world = by_turns(10)
    world.list_posts("recents", 1)
    world.away = {"post"}
    assert (await lists_of(world, 3).get(AUTHORS)).keys() == {1}


async def test_of_many_that_are_absent_each_reader_fills_some_in() -> None:
    world = World({post: post for post in range(1, 41)})
    lists = lists_of(world, 3)
    assert [len(await lists.get(range(1, 41))) for _ in range(2)] == [MOST_READ, 40]


async def test_only_so_many_authors_are_read_at_the_same_time() -> None:
    reading, most = 0, 0

    class Slow:
        async def recent(self, authors: Collection[int], position: int, limit: int) -> Stretch:
            nonlocal reading, most
            reading += 1
            most = max(most, reading)
            await asyncio.sleep(0)
            reading -= 1
            if 7 in authors:
                raise Unavailable.of_dependency("post")
            return Stretch([], [], 0)

    lists = await CachedLists(Lists(World({}), "recents"), Slow(), 3).read(range(1, 50))
    assert (most, len(lists)) == (AT_ONCE, 48)


def test_a_list_takes_no_more_memory_than_its_ids() -> None:
    posts = AuthorPosts.of(range(1000, 0, -1), 0).post_ids
    assert memoryview(posts).nbytes == 8000  # type: ignore[arg-type]
