"""Hydration answers for every distinct id asked, in order, whatever the cache holds and whoever is away."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from feedkit.errors import DeadlineExceeded, FeedError, Internal, Overloaded
from feedkit.errors import Unavailable as UnavailableError
from hydrate_service.hydration import Hydrator, Outcome, Shown, Unavailable, Withheld
from hypothesis import given
from hypothesis import strategies as st

NOT_NOW = [UnavailableError.of_dependency("x"), Overloaded("OVERLOADED", "full"), DeadlineExceeded()]


@dataclass
class Post:
    """A post without a body."""

    id: int
    author_id: int


@dataclass
class World:
    """Posts by author and names by user: in truth, and in a cache that knows some of it. Notes what is asked of it."""

    authors: Mapping[int, int]
    names: Mapping[int, str]
    cached_posts: Collection[int] = ()
    cached_names: Collection[int] = ()
    cache_failure: FeedError | None = None
    posts_fault: FeedError | None = None
    unknown_posts: Collection[int] = ()
    """Those whose truth cannot be had now."""
    unknown_names: Collection[int] = ()
    asked: list[tuple[str, list[int]]] = field(default_factory=list[tuple[str, list[int]]])

    async def hydrate(self, *post_ids: int, author_ids: Sequence[int] = ()) -> dict[int, Outcome[Post]]:
        """What the hydrator makes of it."""
        return await Hydrator[Post](_Cache(self), _Posts(self), _Names(self)).hydrate(post_ids, author_ids)

    def post(self, post_id: int) -> Post | None:
        """The post, if there is one."""
        return Post(post_id, self.authors[post_id]) if post_id in self.authors else None


class _Cache:
    def __init__(self, world: World) -> None:
        self._world = world

    async def read(
        self, post_ids: Sequence[int], author_ids: Sequence[int]
    ) -> tuple[dict[int, Post | None], dict[int, str | None]]:
        world = self._world
        world.asked.append(("cache", [*post_ids, *author_ids]))
        if world.cache_failure:
            raise world.cache_failure
        return (
            {id: world.post(id) for id in post_ids if id in world.cached_posts},
            {id: world.names[id] for id in author_ids if id in world.cached_names and id in world.names},
        )


class _Posts:
    def __init__(self, world: World) -> None:
        self._world = world

    async def load(self, ids: Collection[int]) -> Mapping[int, Post | None]:
        self._world.asked.append(("posts", sorted(ids)))
        if self._world.posts_fault:
            raise self._world.posts_fault
        return {id: self._world.post(id) for id in ids if id not in self._world.unknown_posts}


class _Names:
    def __init__(self, world: World) -> None:
        self._world = world

    async def load(self, ids: Collection[int]) -> Mapping[int, str | None]:
        self._world.asked.append(("names", sorted(ids)))
        return {id: self._world.names.get(id) for id in ids if id not in self._world.unknown_names}


def world(**state: Any) -> World:
    """Posts 1 to 3 of Ann (7), 4 of somebody who does not exist (8), 5 of Bob (9)."""
    return World({1: 7, 2: 7, 3: 7, 4: 8, 5: 9}, {7: "Ann", 9: "Bob"}, **state)


async def test_a_post_comes_with_the_name_of_its_author() -> None:
    assert await world().hydrate(1) == {1: Shown(Post(1, 7), "Ann")}


async def test_a_post_that_is_not_there_is_withheld() -> None:
    assert await world().hydrate(99) == {99: Withheld.NOT_FOUND}


async def test_a_post_that_is_known_not_to_be_there_is_withheld_without_asking() -> None:
    mesh = world(cached_posts=[99])
    assert await mesh.hydrate(99) == {99: Withheld.NOT_FOUND}
    assert mesh.asked == [("cache", [99])]


async def test_a_post_without_an_author_is_withheld() -> None:
    assert await world().hydrate(4) == {4: Withheld.AUTHOR_NOT_FOUND}


async def test_answers_come_once_for_each_id_in_the_order_asked() -> None:
    assert list(await world(cached_posts=[1, 99]).hydrate(3, 99, 1, 3, 99, 2)) == [3, 99, 1, 2]


async def test_nothing_asked_asks_nobody() -> None:
    mesh = world()
    assert (await mesh.hydrate(), mesh.asked) == ({}, [])


# --- who is asked for what ---------------------------------------------------------------------------------------------


async def test_all_that_is_cached_comes_in_one_round_trip_where_the_authors_are_known() -> None:
    mesh = world(cached_posts=[1, 2, 5], cached_names=[7, 9])
    answer = await mesh.hydrate(1, 2, 5, 1, author_ids=[7, 7, 9, 7])
    assert answer == {1: Shown(Post(1, 7), "Ann"), 2: Shown(Post(2, 7), "Ann"), 5: Shown(Post(5, 9), "Bob")}
    assert mesh.asked == [("cache", [1, 2, 5, 7, 9])]


async def test_without_known_authors_it_takes_one_round_trip_more() -> None:
    mesh = world(cached_posts=[1, 5], cached_names=[7, 9])
    await mesh.hydrate(1, 5)
    assert mesh.asked == [("cache", [1, 5]), ("cache", [7, 9])]


async def test_a_wrong_author_is_not_believed() -> None:
    mesh = world(cached_posts=[1, 5], cached_names=[7, 9])
    assert await mesh.hydrate(1, author_ids=[9]) == {1: Shown(Post(1, 7), "Ann")}
    assert mesh.asked == [("cache", [1, 9]), ("cache", [7])]


async def test_only_what_the_cache_does_not_know_is_read_from_the_truth_each_once() -> None:
    mesh = world(cached_posts=[1], cached_names=[7])
    await mesh.hydrate(1, 5, 5, 99, author_ids=[7, 9, 9, 7])
    assert mesh.asked == [("cache", [1, 5, 99, 7, 9]), ("posts", [5, 99]), ("names", [9])]


async def test_names_are_not_asked_for_where_no_post_is_found() -> None:
    mesh = world()
    await mesh.hydrate(98, 99)
    assert mesh.asked == [("cache", [98, 99]), ("posts", [98, 99])]


# --- what cannot be had now --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", NOT_NOW, ids=lambda error: type(error).__name__)
async def test_without_the_cache_everything_comes_from_the_truth(failure: FeedError) -> None:
    mesh = world(cached_posts=[99], cache_failure=failure)
    assert await mesh.hydrate(1, 99, author_ids=[7, 7]) == {1: Shown(Post(1, 7), "Ann"), 99: Withheld.NOT_FOUND}


async def test_without_the_truth_of_posts_the_others_are_shown() -> None:
    mesh = world(cached_posts=[1], unknown_posts=[2])
    assert await mesh.hydrate(1, 2, 3) == {
        1: Shown(Post(1, 7), "Ann"),
        2: Unavailable("post"),
        3: Shown(Post(3, 7), "Ann"),
    }


async def test_without_the_truth_of_a_name_its_posts_are_unavailable_and_others_are_answered() -> None:
    mesh = world(cached_names=[9], unknown_names=[7])
    assert await mesh.hydrate(2, 5, 99) == {
        2: Unavailable("graph"),
        5: Shown(Post(5, 9), "Bob"),
        99: Withheld.NOT_FOUND,
    }


async def test_a_fault_is_not_taken_for_an_outage() -> None:
    with pytest.raises(Internal):
        await world(posts_fault=Internal()).hydrate(1)


ids = st.integers(1, 12)
users = st.integers(1, 4)


worlds = st.builds(
    World,
    authors=st.dictionaries(ids, users),
    names=st.dictionaries(users, st.text()),
    cached_posts=st.sets(ids),
    cached_names=st.sets(users),
)


@given(st.lists(st.tuples(ids, users)), worlds, st.booleans())
async def test_outcomes_are_those_of_the_truth_whatever_is_cached_and_guessed(
    asked: list[tuple[int, int]], mesh: World, guessed: bool
) -> None:
    expected: dict[int, Outcome[Post]] = {}
    for post_id, _ in asked:
        author_id = mesh.authors.get(post_id)
        if author_id is None:
            expected[post_id] = Withheld.NOT_FOUND
        elif author_id not in mesh.names:
            expected[post_id] = Withheld.AUTHOR_NOT_FOUND
        else:
            expected[post_id] = Shown(Post(post_id, author_id), mesh.names[author_id])
    guesses = [author_id for _, author_id in asked] if guessed else []
    answer = await mesh.hydrate(*(post_id for post_id, _ in asked), author_ids=guesses)
    assert list(answer.items()) == list(expected.items())
