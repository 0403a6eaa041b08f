"""Hydration answers for every distinct id asked, in order, whatever the cache holds and whoever is away."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from feedkit.errors import DeadlineExceeded, FeedError, Internal, Overloaded
from feedkit.errors import Unavailable as UnavailableError
from hydrate_service.hydration import Cached, Counts, Hydrator, Outcome, Shown
from hydrate_service.visibility import Author, Hides, Surface, Unavailable, Withheld
from hypothesis import given
from hypothesis import strategies as st

NOT_NOW = [UnavailableError.of_dependency("x"), Overloaded("OVERLOADED", "full"), DeadlineExceeded()]


@dataclass
class Post:
    """A post without a body."""

    id: int
    author_id: int


class Tally(NamedTuple):
    """Counts."""

    likes: int = 0
    reposts: int = 0
    replies: int = 0


NONE = Tally()


@dataclass
class World:
    """Posts by author and names by user: in truth, and in a cache that knows some of it. Notes what is asked of it."""

    authors: Mapping[int, int]
    names: Mapping[int, str]
    suspended: Collection[int] = ()
    blocks: Collection[tuple[int, int]] = ()
    """Who blocks whom."""
    mutes: Collection[tuple[int, int]] = ()
    """Who mutes whom."""
    listed_blocks: int = 100
    """How many blocks are listed at most."""
    cached_posts: Collection[int] = ()
    cached_names: Collection[int] = ()
    cached_hides: Collection[int] = ()
    counts: Mapping[int, Tally] = field(default_factory=dict[int, Tally])
    """Those that are not 0."""
    uncached_counts: Collection[int] = ()
    cache_failure: FeedError | None = None
    posts_fault: FeedError | None = None
    counts_fault: FeedError | None = None
    blocks_failure: FeedError | None = None
    unknown_posts: Collection[int] = ()
    """Those whose truth cannot be had now."""
    unknown_names: Collection[int] = ()
    unknown_hides: Collection[int] = ()
    unknown_counts: Collection[int] = ()
    uncounted: Collection[int] = ()
    """Those of which the truth has no counts."""
    met: asyncio.Barrier | None = None
    """Where reads of posts and of counts wait for one another."""
    asked: list[tuple[str, list[int]]] = field(default_factory=list[tuple[str, list[int]]])
    withheld: Counter[tuple[Withheld, Surface]] = field(default_factory=Counter[tuple[Withheld, Surface]])

    async def hydrate(
        self, *post_ids: int, author_ids: Sequence[int] = (), viewer: int = 0, surface: Surface = Surface.FEED
    ) -> dict[int, Outcome[Post]]:
        """What the hydrator makes of it."""
        reads = _Posts(self), _Authors(self), _Hides(self), _Blocks(self)
        hydrator = Hydrator[Post](_Cache(self), *reads, counts=_Counts(self), note_withheld=self._note)
        return await hydrator.hydrate(post_ids, author_ids, viewer_id=viewer, surface=surface)

    def _note(self, reason: Withheld, surface: Surface) -> None:
        self.withheld[reason, surface] += 1

    def post(self, post_id: int) -> Post | None:
        """The post, if there is one."""
        return Post(post_id, self.authors[post_id]) if post_id in self.authors else None

    def counted(self, post_id: int) -> Tally:
        """What others did with the post."""
        return self.counts.get(post_id, NONE)

    def author(self, user_id: int) -> Author | None:
        """The user, if there is one."""
        return Author(user_id, self.names[user_id], user_id in self.suspended) if user_id in self.names else None

    def blocked(self, viewer: int) -> list[int]:
        """Whom the viewer blocks and who blocks the viewer, ascending."""
        return sorted({one if other == viewer else other for one, other in self.blocks if viewer in (one, other)})

    def hides(self, viewer: int) -> Hides:
        """What is hidden from a viewer."""
        blocked, muted = self.blocked(viewer), sorted(other for one, other in self.mutes if one == viewer)
        return Hides(blocked[: self.listed_blocks], muted, len(blocked) > self.listed_blocks)


class _Cache:
    def __init__(self, world: World) -> None:
        self._world = world

    async def read(self, post_ids: Sequence[int], author_ids: Sequence[int], viewer_id: int = 0) -> Cached[Post]:
        world = self._world
        world.asked.append(("cache", [*post_ids, *author_ids, *([viewer_id] if viewer_id else [])]))
        if world.cache_failure:
            raise world.cache_failure
        return Cached(
            {id: world.post(id) for id in post_ids if id in world.cached_posts},
            {id: world.author(id) for id in author_ids if id in world.cached_names and id in world.names},
            world.hides(viewer_id) if viewer_id in world.cached_hides else None,
            {id: world.counted(id) for id in post_ids if id in world.authors and id not in world.uncached_counts},
        )


class _Posts:
    def __init__(self, world: World) -> None:
        self._world = world

    async def load(self, ids: Collection[int]) -> Mapping[int, Post | None]:
        self._world.asked.append(("posts", sorted(ids)))
        if self._world.met:
            await self._world.met.wait()
        if self._world.posts_fault:
            raise self._world.posts_fault
        return {id: self._world.post(id) for id in ids if id not in self._world.unknown_posts}


class _Counts:
    def __init__(self, world: World) -> None:
        self._world = world

    async def load(self, ids: Collection[int]) -> Mapping[int, Counts | None]:
        self._world.asked.append(("counts", sorted(ids)))
        if self._world.met:
            await self._world.met.wait()
        if self._world.counts_fault:
            raise self._world.counts_fault
        return {
            id: self._world.counted(id) if id in self._world.authors and id not in self._world.uncounted else None
            for id in ids
            if id not in self._world.unknown_counts
        }


class _Authors:
    def __init__(self, world: World) -> None:
        self._world = world

    async def load(self, ids: Collection[int]) -> Mapping[int, Author | None]:
        self._world.asked.append(("authors", sorted(ids)))
        return {id: self._world.author(id) for id in ids if id not in self._world.unknown_names}


class _Hides:
    def __init__(self, world: World) -> None:
        self._world = world

    async def load(self, ids: Collection[int]) -> Mapping[int, Hides | None]:
        self._world.asked.append(("hides", sorted(ids)))
        return {id: self._world.hides(id) for id in ids if id not in self._world.unknown_hides}


class _Blocks:
    def __init__(self, world: World) -> None:
        self._world = world

    async def between(self, viewer_id: int, author_ids: Collection[int]) -> Collection[int]:
        self._world.asked.append(("blocks", sorted(author_ids)))
        if self._world.blocks_failure:
            raise self._world.blocks_failure
        return {*self._world.blocked(viewer_id)}.intersection(author_ids)


def world(**state: Any) -> World:
    """Posts 1 to 3 of Ann (7), 4 of somebody who does not exist (8), 5 of Bob (9)."""
    return World({1: 7, 2: 7, 3: 7, 4: 8, 5: 9}, {7: "Ann", 9: "Bob"}, **state)


async def test_a_post_comes_with_the_name_of_its_author() -> None:
    assert await world().hydrate(1) == {1: Shown(Post(1, 7), "Ann", NONE)}


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
    assert answer == {
        1: Shown(Post(1, 7), "Ann", NONE),
        2: Shown(Post(2, 7), "Ann", NONE),
        5: Shown(Post(5, 9), "Bob", NONE),
    }
    assert mesh.asked == [("cache", [1, 2, 5, 7, 9])]


async def test_without_known_authors_it_takes_one_round_trip_more() -> None:
    mesh = world(cached_posts=[1, 5], cached_names=[7, 9])
    await mesh.hydrate(1, 5)
    assert mesh.asked == [("cache", [1, 5]), ("cache", [7, 9])]


@pytest.mark.parametrize("cached", [[1, 5], []])
async def test_a_post_that_somebody_else_wrote_is_not_found(cached: list[int]) -> None:
    mesh = world(cached_posts=cached, cached_names=[7, 9])
    assert await mesh.hydrate(1, 5, author_ids=[9, 9]) == {1: Withheld.NOT_FOUND, 5: Shown(Post(5, 9), "Bob", NONE)}


async def test_only_what_the_cache_does_not_know_is_read_from_the_truth_each_once() -> None:
    mesh = world(cached_posts=[1], cached_names=[7])
    await mesh.hydrate(1, 5, 5, 99, author_ids=[7, 9, 9, 7])
    assert mesh.asked == [("cache", [1, 5, 99, 7, 9]), ("posts", [5, 99]), ("counts", [99]), ("authors", [9])]


async def test_names_are_not_asked_for_where_no_post_is_found() -> None:
    mesh = world()
    await mesh.hydrate(98, 99)
    assert mesh.asked == [("cache", [98, 99]), ("posts", [98, 99]), ("counts", [98, 99])]


# --- what cannot be had now --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", NOT_NOW, ids=lambda error: type(error).__name__)
async def test_without_the_cache_everything_comes_from_the_truth(failure: FeedError) -> None:
    mesh = world(cached_posts=[99], cache_failure=failure)
    assert await mesh.hydrate(1, 99, author_ids=[7, 7]) == {1: Shown(Post(1, 7), "Ann", NONE), 99: Withheld.NOT_FOUND}


async def test_without_the_truth_of_posts_the_others_are_shown() -> None:
    mesh = world(cached_posts=[1], unknown_posts=[2])
    assert await mesh.hydrate(1, 2, 3) == {
        1: Shown(Post(1, 7), "Ann", NONE),
        2: Unavailable("post"),
        3: Shown(Post(3, 7), "Ann", NONE),
    }


async def test_without_the_truth_of_a_name_its_posts_are_unavailable_and_others_are_answered() -> None:
    mesh = world(cached_names=[9], unknown_names=[7])
    assert await mesh.hydrate(2, 5, 99) == {
        2: Unavailable("graph"),
        5: Shown(Post(5, 9), "Bob", NONE),
        99: Withheld.NOT_FOUND,
    }


async def test_a_fault_is_not_taken_for_an_outage() -> None:
    with pytest.raises(Internal):
        await world(posts_fault=Internal()).hydrate(1)


# --- counts -----------------------------------------------------------------------------------------------------------


async def test_a_post_comes_with_what_others_did_with_it() -> None:
    mesh = world(cached_posts=[1, 2], cached_names=[7], counts={1: Tally(3, 1, 2)})
    answer = await mesh.hydrate(1, 2, author_ids=[7, 7])
    assert answer == {1: Shown(Post(1, 7), "Ann", Tally(3, 1, 2)), 2: Shown(Post(2, 7), "Ann", Tally(0, 0, 0))}
    assert mesh.asked == [("cache", [1, 2, 7])]


async def test_counts_that_are_not_cached_are_read_from_the_truth_and_not_those_of_posts_that_are_gone() -> None:
    mesh = world(cached_posts=[1, 2, 99], cached_names=[7], counts={2: Tally(likes=5)}, uncached_counts=[2])
    answer = await mesh.hydrate(1, 2, 99, author_ids=[7, 7, 7])
    assert answer[2] == Shown(Post(2, 7), "Ann", Tally(likes=5))
    assert mesh.asked == [("cache", [1, 2, 99, 7]), ("counts", [2])]


async def test_posts_and_their_counts_are_read_together_and_not_one_after_the_other() -> None:
    mesh = world(uncached_counts=[1], counts={1: Tally(1, 2, 3)}, met=asyncio.Barrier(2))
    async with asyncio.timeout(5):
        assert await mesh.hydrate(1) == {1: Shown(Post(1, 7), "Ann", Tally(1, 2, 3))}


async def test_a_cached_post_that_the_truth_counts_no_longer_is_shown_without_counts() -> None:
    """It was deleted just now; what is cached of it is about to be forgotten."""
    mesh = world(cached_posts=[1], cached_names=[7], uncached_counts=[1], uncounted=[1])
    assert await mesh.hydrate(1) == {1: Shown(Post(1, 7), "Ann", None)}


@pytest.mark.parametrize("fault", [*NOT_NOW, Internal()], ids=lambda error: type(error).__name__)
async def test_whatever_becomes_of_counts_posts_are_shown(fault: FeedError) -> None:
    mesh = world(uncached_counts=[1], counts_fault=fault)
    assert await mesh.hydrate(1, 2) == {1: Shown(Post(1, 7), "Ann", None), 2: Shown(Post(2, 7), "Ann", NONE)}


async def test_counts_that_cannot_be_had_now_are_unset_and_not_0() -> None:
    mesh = world(uncached_counts=[1, 2], unknown_counts=[1], counts={2: Tally(replies=1)})
    assert await mesh.hydrate(1, 2) == {
        1: Shown(Post(1, 7), "Ann", None),
        2: Shown(Post(2, 7), "Ann", Tally(replies=1)),
    }


# --- who looks, and where ---------------------------------------------------------------------------------------------

VIC = 5
FEED, POST = Surface.FEED, Surface.POST


async def test_posts_of_a_suspended_author_are_withheld_from_everybody_the_author_included() -> None:
    mesh = world(suspended=[7])
    for viewer in (0, VIC, 7):
        assert await mesh.hydrate(1, 5, viewer=viewer) == {
            1: Withheld.AUTHOR_SUSPENDED,
            5: Shown(Post(5, 9), "Bob", NONE),
        }


@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("block", [(VIC, 7), (7, VIC)], ids=["of the viewer", "of the author"])
async def test_a_block_hides_from_either_side_everywhere(block: tuple[int, int], surface: Surface) -> None:
    mesh = world(blocks=[block])
    answer = await mesh.hydrate(1, 5, viewer=VIC, surface=surface)
    assert answer == {1: Withheld.BLOCKED, 5: Shown(Post(5, 9), "Bob", NONE)}


async def test_a_mute_hides_from_one_side_in_feeds() -> None:
    mesh = world(mutes=[(VIC, 7), (9, VIC)])
    assert await mesh.hydrate(1, 5, viewer=VIC) == {1: Withheld.MUTED, 5: Shown(Post(5, 9), "Bob", NONE)}
    assert await mesh.hydrate(1, viewer=VIC, surface=POST) == {1: Shown(Post(1, 7), "Ann", NONE)}


async def test_what_is_hidden_from_the_viewer_comes_in_the_same_round_trip() -> None:
    mesh = world(cached_posts=[1, 5], cached_names=[7, 9], cached_hides=[VIC], blocks=[(9, VIC)])
    answer = await mesh.hydrate(1, 5, author_ids=[7, 9], viewer=VIC)
    assert answer == {1: Shown(Post(1, 7), "Ann", NONE), 5: Withheld.BLOCKED}
    assert mesh.asked == [("cache", [1, 5, 7, 9, VIC])]


async def test_what_the_cache_does_not_know_of_it_is_read_from_the_truth() -> None:
    mesh = world(cached_posts=[1], cached_names=[7])
    await mesh.hydrate(1, author_ids=[7], viewer=VIC)
    assert mesh.asked == [("cache", [1, 7, VIC]), ("hides", [VIC])]


async def test_for_ones_own_posts_it_need_not_be_known() -> None:
    mesh = world(unknown_hides=[7])
    assert await mesh.hydrate(1, 2, viewer=7) == {1: Shown(Post(1, 7), "Ann", NONE), 2: Shown(Post(2, 7), "Ann", NONE)}
    assert "hides" not in dict(mesh.asked)


async def test_without_it_the_posts_of_others_are_unavailable_and_only_those() -> None:
    mesh = world(unknown_hides=[7], suspended=[11])
    assert await mesh.hydrate(1, 5, 4, 99, viewer=7) == {
        1: Shown(Post(1, 7), "Ann", NONE),
        5: Unavailable("graph"),
        4: Withheld.AUTHOR_NOT_FOUND,
        99: Withheld.NOT_FOUND,
    }


async def test_where_more_block_than_are_listed_it_is_asked_about_the_authors_at_hand() -> None:
    cached = {"cached_posts": [1, 5], "cached_names": [7, 9], "cached_hides": [VIC]}
    mesh = world(blocks=[(1, VIC), (9, VIC)], listed_blocks=1, **cached)
    answer = await mesh.hydrate(1, 5, author_ids=[7, 9], viewer=VIC, surface=POST)
    assert answer == {1: Shown(Post(1, 7), "Ann", NONE), 5: Withheld.BLOCKED}
    assert mesh.asked == [("cache", [1, 5, 7, 9, VIC]), ("blocks", [7, 9])]


@pytest.mark.parametrize("failure", NOT_NOW, ids=lambda error: type(error).__name__)
async def test_where_that_cannot_be_told_only_what_is_listed_is_certain(failure: FeedError) -> None:
    mesh = world(blocks=[(7, VIC), (12, VIC)], listed_blocks=1, blocks_failure=failure)
    assert await mesh.hydrate(1, 5, viewer=VIC) == {1: Withheld.BLOCKED, 5: Unavailable("graph")}


async def test_where_all_authors_at_hand_are_listed_nobody_is_asked_about_more() -> None:
    mesh = world(blocks=[(7, VIC), (12, VIC)], listed_blocks=1)
    assert await mesh.hydrate(1, viewer=VIC) == {1: Withheld.BLOCKED}
    assert "blocks" not in dict(mesh.asked)


async def test_what_is_withheld_is_noted_with_reason_and_surface() -> None:
    mesh = world(suspended=[9], blocks=[(VIC, 7)], unknown_posts=[98])
    await mesh.hydrate(1, 2, 4, 5, 98, 99, 99, viewer=VIC, surface=FEED)
    await mesh.hydrate(1, viewer=VIC, surface=POST)
    assert mesh.withheld == {
        (Withheld.BLOCKED, FEED): 2,
        (Withheld.AUTHOR_NOT_FOUND, FEED): 1,
        (Withheld.AUTHOR_SUSPENDED, FEED): 1,
        (Withheld.NOT_FOUND, FEED): 1,
        (Withheld.BLOCKED, POST): 1,
    }


# --- the truth, whatever is cached ------------------------------------------------------------------------------------

ids = st.integers(1, 12)
users = st.integers(1, 4)
edges = st.sets(st.tuples(users, users).filter(lambda edge: edge[0] != edge[1]), max_size=5)


worlds = st.builds(
    World,
    authors=st.dictionaries(ids, users),
    names=st.dictionaries(users, st.text()),
    suspended=st.sets(users, max_size=2),
    blocks=edges,
    mutes=edges,
    listed_blocks=st.integers(0, 3),
    cached_posts=st.sets(ids),
    cached_names=st.sets(users),
    cached_hides=st.sets(users),
    counts=st.dictionaries(ids, st.builds(Tally, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))),
    uncached_counts=st.sets(ids),
)


def expected(mesh: World, post_id: int, viewer: int, surface: Surface) -> Outcome[Post]:
    """The oracle."""
    author_id = mesh.authors.get(post_id)
    if author_id is None:
        return Withheld.NOT_FOUND
    if author_id not in mesh.names:
        return Withheld.AUTHOR_NOT_FOUND
    if author_id in mesh.suspended:
        return Withheld.AUTHOR_SUSPENDED
    if {(viewer, author_id), (author_id, viewer)} & set(mesh.blocks):
        return Withheld.BLOCKED
    if (viewer, author_id) in mesh.mutes and surface is FEED:
        return Withheld.MUTED
    return Shown(Post(post_id, author_id), mesh.names[author_id], mesh.counted(post_id))


@given(st.lists(st.tuples(ids, users)), worlds, st.integers(0, 4), st.sampled_from(Surface), st.booleans())
async def test_outcomes_are_those_of_the_truth_whatever_is_cached_and_guessed(
    asked: list[tuple[int, int]], mesh: World, viewer: int, surface: Surface, guessed: bool
) -> None:
    post_ids = [post_id for post_id, _ in asked]
    guesses = [author_id for _, author_id in asked] if guessed else []
    answer = await mesh.hydrate(*post_ids, author_ids=guesses, viewer=viewer, surface=surface)
    told = dict(asked) if guessed else mesh.authors
    assert answer == {
        post_id: expected(mesh, post_id, viewer, surface)
        if told.get(post_id) == mesh.authors.get(post_id)
        else Withheld.NOT_FOUND
        for post_id in post_ids
    }
    assert list(answer) == list(dict.fromkeys(post_ids))
