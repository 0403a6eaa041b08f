"""Who is pulled, whatever there was in the index before."""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from graph_service.pulled_authors import Decision, IndexChange, PulledAuthors, ShrunkAuthor
from hypothesis import given
from hypothesis import strategies as st

AUTHORS = st.integers(1, 9)


class Index:
    """An index in memory, and the followers of everybody."""

    def __init__(self, inside: AbstractSet[int], followers: Mapping[int, int]) -> None:
        self.sequences = dict.fromkeys(inside, 1)
        self.followers = followers

    async def decide(self, author_ids: Sequence[int]) -> list[Decision]:
        for author_id in self.sequences.keys() & set(author_ids):
            self.sequences[author_id] += 1
        # In another order than asked, as a database may.
        return [Decision(i, i in self.sequences, self.followers.get(i, 0)) for i in sorted(author_ids)]

    async def enter(self, author_ids: Sequence[int]) -> None:
        self.sequences |= dict.fromkeys(author_ids, 1)

    async def changes_since(self, version: int) -> IndexChange:
        raise AssertionError("a decision does not need the index of everybody")

    async def shrunk(self, follower_count: int, limit: int) -> list[ShrunkAuthor]:
        raise AssertionError("a decision does not need the index of everybody")

    async def leave(self, author_id: int, sequence: int) -> bool:
        raise AssertionError("a decision takes nobody out")


@given(
    asked=st.lists(AUTHORS, max_size=12),
    inside=st.frozensets(AUTHORS),
    followers=st.dictionaries(AUTHORS, st.integers(0, 5)),
    threshold=st.integers(0, 6),
)
def test_pulled_are_those_in_the_index_and_those_who_reach_the_threshold_and_they_are_in_it_then(
    asked: list[int], inside: frozenset[int], followers: dict[int, int], threshold: int
):
    index = Index(inside, followers)
    decisions = asyncio.run(PulledAuthors(index).classify(asked, threshold))
    pulled = {i for i in asked if i in inside or followers.get(i, 0) >= threshold}
    assert decisions == [Decision(i, i in pulled, followers.get(i, 0)) for i in dict.fromkeys(asked)]
    assert index.sequences == {i: 1 + (i in inside and i in asked) for i in inside | pulled}
