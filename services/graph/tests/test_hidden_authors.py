"""Whose posts are withheld from a viewer, where there are more who block than can be listed."""

from graph_service.hidden_authors import Hiding, listed
from hypothesis import given
from hypothesis import strategies as st

MOST = 6


def ids(most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 15), unique=True, max_size=most)


@given(ids(MOST), ids(12), ids(8))
def test_all_are_listed_or_more_are_told_of(blocked: list[int], blockers: list[int], muted: list[int]):
    hidden = listed(Hiding(blocked, blockers[: MOST + 1], muted), MOST)
    everybody = set(blocked) | set(blockers)
    assert set(blocked) <= set(hidden.blocked_ids) <= everybody
    assert len(hidden.blocked_ids) <= MOST
    if len(everybody) <= MOST:
        assert set(hidden.blocked_ids) == everybody
    assert hidden.more_block or set(hidden.blocked_ids) == everybody


@given(ids(MOST), ids(MOST), ids(8))
def test_ids_ascend_and_come_once(blocked: list[int], blockers: list[int], muted: list[int]):
    hidden = listed(Hiding(blocked, blockers, muted), MOST)
    for some in (hidden.blocked_ids, hidden.muted_ids):
        assert list(some) == sorted(set(some))
    assert set(hidden.muted_ids) == set(muted)


def test_nobody_more_is_told_of_where_all_have_just_room():
    assert listed(Hiding([1, 2], [3, 4, 5, 6], []), MOST) == ([1, 2, 3, 4, 5, 6], [], False)


def test_the_newest_blocks_are_listed_first():
    assert listed(Hiding([1], [9, 8, 7, 6, 5, 4, 3], [2]), MOST) == ([1, 5, 6, 7, 8, 9], [2], True)
