"""Hydration answers for every distinct id asked, in order, whatever its loaders do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


class Truth:
    """Posts by id and names by author, and what was asked of them."""

    def __init__(self, authors: Mapping[int, int], names: Mapping[int, str]) -> None:
        self.authors = authors
        self.names = names
        self.posts_failure: FeedError | None = None
        self.names_failure: FeedError | None = None
        self.asked: list[tuple[str, list[int]]] = []

    async def hydrate(self, *post_ids: int) -> dict[int, Outcome[Post]]:
        """What the hydrator makes of it."""
        return await Hydrator[Post](_Posts(self), _Names(self)).hydrate(post_ids)


class _Posts:
    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    async def load(self, post_ids: Sequence[int]) -> Sequence[Post]:
        self._truth.asked.append(("posts", list(post_ids)))
        if self._truth.posts_failure:
            raise self._truth.posts_failure
        return [Post(id, self._truth.authors[id]) for id in post_ids if id in self._truth.authors]


class _Names:
    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    async def load(self, user_ids: Sequence[int]) -> Mapping[int, str]:
        self._truth.asked.append(("names", list(user_ids)))
        if self._truth.names_failure:
            raise self._truth.names_failure
        return {id: self._truth.names[id] for id in user_ids if id in self._truth.names}


def truth() -> Truth:
    """Posts 1 to 3 of Ann (7), 4 of somebody who does not exist (8)."""
    return Truth({1: 7, 2: 7, 3: 7, 4: 8}, {7: "Ann"})


async def test_a_post_comes_with_the_name_of_its_author() -> None:
    assert await truth().hydrate(1) == {1: Shown(Post(1, 7), "Ann")}


async def test_a_post_that_is_not_there_is_withheld() -> None:
    assert await truth().hydrate(99) == {99: Withheld.NOT_FOUND}


async def test_a_post_without_an_author_is_withheld() -> None:
    assert await truth().hydrate(4) == {4: Withheld.AUTHOR_NOT_FOUND}


async def test_answers_come_once_for_each_id_in_the_order_asked() -> None:
    assert list(await truth().hydrate(3, 99, 1, 3, 99, 2)) == [3, 99, 1, 2]


async def test_each_loader_is_asked_once_for_distinct_ids() -> None:
    mesh = truth()
    await mesh.hydrate(1, 2, 1, 99)
    assert mesh.asked == [("posts", [1, 2, 99]), ("names", [7])]


async def test_nothing_asked_asks_nobody() -> None:
    mesh = truth()
    assert (await mesh.hydrate(), mesh.asked) == ({}, [])


async def test_names_are_not_asked_for_where_no_post_is_found() -> None:
    mesh = truth()
    await mesh.hydrate(98, 99)
    assert mesh.asked == [("posts", [98, 99])]


@pytest.mark.parametrize("failure", NOT_NOW, ids=lambda error: type(error).__name__)
async def test_without_posts_everything_asked_is_unavailable(failure: FeedError) -> None:
    mesh = truth()
    mesh.posts_failure = failure
    assert await mesh.hydrate(2, 99) == {2: Unavailable("post"), 99: Unavailable("post")}


@pytest.mark.parametrize("failure", NOT_NOW, ids=lambda error: type(error).__name__)
async def test_without_names_posts_that_exist_are_unavailable_and_others_withheld(failure: FeedError) -> None:
    mesh = truth()
    mesh.names_failure = failure
    assert await mesh.hydrate(2, 99) == {2: Unavailable("graph"), 99: Withheld.NOT_FOUND}


async def test_a_fault_of_a_loader_is_not_taken_for_an_outage() -> None:
    mesh = truth()
    mesh.posts_failure = Internal()
    with pytest.raises(Internal):
        await mesh.hydrate(1)


ids = st.integers(1, 12)


@given(st.lists(ids), st.dictionaries(ids, st.integers(1, 4)), st.dictionaries(st.integers(1, 4), st.text()))
async def test_outcomes_are_those_of_the_truth(
    asked: list[int], authors: dict[int, int], names: dict[int, str]
) -> None:
    expected: dict[int, Outcome[Post]] = {}
    for post_id in asked:
        if post_id not in authors:
            expected[post_id] = Withheld.NOT_FOUND
        elif authors[post_id] not in names:
            expected[post_id] = Withheld.AUTHOR_NOT_FOUND
        else:
            expected[post_id] = Shown(Post(post_id, authors[post_id]), names[authors[post_id]])
    answer = await Truth(authors, names).hydrate(*asked)
    assert list(answer.items()) == list(expected.items())
