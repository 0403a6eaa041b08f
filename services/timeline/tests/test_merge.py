"""The merge emits every entry of every source once, newest first, and none before it is certain."""

import asyncio

import pytest
from feedkit.errors import Internal
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.entries import Entry
from timeline_service.merge import Merge
from timeline_service.source import TOP, Source, Stretch

from .histories import STRANGER, VIEWER, Listed, error_of, histories, posts, unhurried


def merge_of(*sources: Source, position: int = TOP) -> Merge:
    """A merge for the viewer."""
    return Merge(sources, position, VIEWER.authors)


def ids(entries: list[Entry]) -> list[int]:
    """The posts of entries."""
    return [entry.post_id for entry in entries]


class Said:
    """A source that says one thing after another, whatever it is asked."""

    def __init__(self, *stretches: Stretch) -> None:
        self._stretches = iter(stretches)

    def peek(self, position: int, limit: int) -> None:
        """See `source.Source`."""
        return

    async def read(self, position: int, limit: int) -> Stretch:
        """See `source.Source`."""
        return next(self._stretches)

    def leave_out(self, author_id: int) -> None:
        """See `source.Source`."""


# --- the worked example ----------------------------------------------------------------------------------------------


async def test_worked_example_from_the_top() -> None:
    merge = merge_of(Listed(posts(5, 3, 1)), Listed(posts(4, 3, 2)))
    assert ids(await merge.take(3)) == [5, 4, 3]


async def test_worked_example_from_three() -> None:
    merge = merge_of(Listed(posts(5, 3, 1)), Listed(posts(4, 3, 2)), position=3)
    assert (ids(await merge.take(3)), merge.ended) == ([2, 1], True)


# --- the rule of completeness ----------------------------------------------------------------------------------------


@unhurried
@given(histories(), st.lists(st.integers(1, 9), min_size=1), st.integers(1, 151) | st.just(TOP))
async def test_any_sources_merge_to_their_union_in_order(
    history: tuple[dict[int, int], list[Listed]], counts: list[int], position: int
) -> None:
    written, sources = history
    expected = [
        Entry(post, author)
        for post, author in sorted(written.items(), reverse=True)
        if post < position and author in VIEWER.authors
    ]
    merge = merge_of(*sources, position=position)
    emitted: list[Entry] = []
    for count in counts:
        taken = await merge.take(count)
        assert len(taken) == min(count, len(expected) - len(emitted)), "short although there is more"
        emitted += taken
    emitted += await merge.take(len(written) + 1)
    assert (emitted, merge.ended) == (expected, True)


async def test_an_entry_waits_until_every_source_is_complete_down_to_it() -> None:
    behind = Listed(posts(9, 7, 5), cap=1)
    merge = merge_of(Listed(posts(8, 6)), behind)
    assert ids(await merge.take(3)) == [9, 8, 7]
    assert [position for position, _ in behind.reads] == [TOP, 9], "it was read on, and no further than needed"


async def test_what_has_been_read_to_its_end_is_not_ended_before_it_is_emitted() -> None:
    merge = merge_of(Listed(posts(2), sure=True), Listed(posts(1), sure=True))
    assert (ids(await merge.take(1)), merge.frontier, merge.ended) == ([2], 0, False)


async def test_a_stretch_without_entries_still_advances() -> None:
    merge = merge_of(Listed(posts(2), stops=[90, 60, 30]))
    assert ids(await merge.take(1)) == [2]


async def test_a_source_that_does_not_advance_is_a_fault_and_no_endless_loop() -> None:
    assert isinstance(await error_of(merge_of(Said(Stretch([], [], TOP))).take(1)), Internal)


@pytest.mark.parametrize("stray", [50, 51, 9], ids=["at the position", "above it", "below what is complete"])
async def test_entries_outside_the_stretch_are_ignored(stray: int) -> None:
    source = Said(Stretch([stray, 20], [1, 1], 10), Stretch([], [], 0))
    assert ids(await merge_of(source, position=50).take(5)) == [20]


async def test_entries_of_strangers_are_dropped() -> None:
    merge = merge_of(Listed({3: 1, 2: STRANGER, 1: 1}))
    assert ids(await merge.take(2)) == [3, 1]


async def test_an_author_who_is_left_out_is_emitted_no_more_and_no_source_is_asked_for_them() -> None:
    sources = [Listed({9: 1, 7: 2, 5: 1, 3: 2}), Listed({8: 2, 6: 1, 4: 2, 2: 1})]
    merge = merge_of(*sources)
    assert ids(await merge.take(2)) == [9, 8]
    merge.leave_out(2)
    assert ids(await merge.take(9)) == [6, 5, 2]
    assert merge.ended
    assert [source.left_out for source in sources] == [{2}, {2}]


# --- no more work than needed ----------------------------------------------------------------------------------------


async def test_nothing_is_read_before_it_is_asked_for() -> None:
    source = Listed(posts(1))
    merge_of(source)
    assert source.reads == []


async def test_what_is_read_is_what_is_asked_for() -> None:
    source = Listed(posts(*range(1, 100)))
    await merge_of(source).take(21)
    assert source.reads == [(TOP, 21)]


async def test_what_is_known_already_is_not_read_again() -> None:
    source = Listed(posts(*range(1, 100)))
    other = Listed(posts(1000))
    merge = merge_of(source, other)
    assert ids(await merge.take(2)) == [1000, 99]
    await merge.take(3)
    assert source.reads == [(TOP, 2), (98, 2)], "98 was read at first and not emitted"


async def test_nothing_lies_below_the_beginning() -> None:
    source = Listed(posts(1))
    merge = merge_of(source, position=0)
    assert (await merge.take(5), merge.ended, source.reads) == ([], True, [])


async def test_without_sources_there_is_nothing() -> None:
    merge = merge_of()
    assert (await merge.take(5), merge.ended) == ([], True)


async def test_what_is_at_hand_is_looked_at_before_anybody_is_asked() -> None:
    asked = Listed(posts(*range(1, 100)))
    merge = merge_of(asked, Listed(posts(*range(200, 220)), at_hand=True))
    assert ids(await merge.take(1)) == [219]
    assert ids(await merge.take(21)) == [*range(218, 199, -1), 99, 98]
    assert asked.reads == [(TOP, 1), (99, 1)], "for no more than what is not at hand"


async def test_where_all_is_at_hand_nobody_is_asked() -> None:
    sources = [Listed(posts(5, 3), cap=1, at_hand=True), Listed(posts(4, 2), at_hand=True)]
    assert ids(await merge_of(*sources).take(5)) == [5, 4, 3, 2]
    assert [source.reads for source in sources] == [[], []]


async def test_sources_are_read_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    class Waiting(Listed):
        async def read(self, position: int, limit: int) -> Stretch:
            await both.wait()
            return await super().read(position, limit)

    async with asyncio.timeout(5):
        assert ids(await merge_of(Waiting(posts(2)), Waiting(posts(1))).take(3)) == [2, 1]


# --- failures --------------------------------------------------------------------------------------------------------


async def test_where_a_source_fails_the_walk_ends_at_the_frontier() -> None:
    failing = Listed(posts(9, 7, 5), cap=2, failures=[False, True])
    merge = merge_of(Listed(posts(8, 6, 4)), failing)
    assert ids(await merge.take(6)) == [9, 8, 7]
    assert (merge.frontier, merge.ended, merge.failure is not None) == (7, False, True)


async def test_where_a_source_fails_at_once_nothing_is_certain() -> None:
    merge = merge_of(Listed(posts(8)), Listed(posts(9), failures=[True]))
    assert (await merge.take(1), merge.frontier) == ([], TOP)


async def test_a_source_that_is_not_needed_may_be_away() -> None:
    failing = Listed(posts(2, 1), cap=1, failures=[False, True])
    merge = merge_of(Listed(posts(9, 8)), failing)
    assert (ids(await merge.take(2)), merge.failure) == ([9, 8], None)
