"""The comparator must see every way in which a walk can be wrong."""

import pytest
from feedctl.oracle import Walk, faults

EXPECTED = [9, 7, 5, 3, 1]


def walk(*pages: tuple[int, ...], limit: int = 2, cursors: tuple[str, ...] | None = None) -> Walk:
    return Walk(1, limit, pages, cursors if cursors is not None else tuple(str(p[-1]) for p in pages[:-1] if p))


def test_an_equal_walk_has_no_faults() -> None:
    assert faults(EXPECTED, walk((9, 7), (5, 3), (1,))) == []


def test_one_request_more_than_full_pages_is_allowed() -> None:
    assert faults(EXPECTED, walk((9, 7), (5, 3), (1,), ())) == []


def test_an_empty_timeline_is_one_empty_page() -> None:
    assert faults([], walk(())) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (walk((9, 7), (5, 3)), "lost 1 (1)"),
        (walk((9, 7), (5, 4), (3, 1)), "extra 1 (4)"),
        (walk((9, 7), (7, 5), (3, 1)), "repeated 1 (7)"),
        (walk((7, 9), (5, 3), (1,)), "not in descending order"),
        (walk((9, 7, 5), (3, 1)), "a page longer than 2"),
        (walk((9, 7), (5, 3), (1,), cursors=("a", "a")), "a cursor came twice"),
        (walk((9,), (7,), (5,), (3,), (1,)), "5 requests for 5 posts"),
    ],
)
def test_each_fault_is_named(wrong: Walk, fault: str) -> None:
    assert fault in faults(EXPECTED, wrong)
