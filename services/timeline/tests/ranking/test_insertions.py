"""The house puts something between the posts of a page, labelled, without taking a place from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.ranking.insertions import Announcement, Inserter, Insertion

NEWS = Announcement(text="We moved.", label="From the house", url="https://example.org/", slot=3)
OFTEN = Announcement(text="We moved.", label="From the house", slot=3, every=20)


def indexes(inserter: Inserter, begins_at: int, size: int) -> list[int]:
    """Before which posts of a page something is put."""
    ends_at = begins_at + size
    return [
        insertion.before_index for insertion in inserter.insertions(7, begins_at, range(begins_at, ends_at), ends_at)
    ]


def test_it_says_what_it_is_and_who_says_it() -> None:
    assert NEWS.insertions(7, 0, range(4), 4) == [
        Insertion(3, "announcement", "From the house", "We moved.", "https://example.org/")
    ]


def test_it_is_said_once_in_a_walk() -> None:
    assert [indexes(NEWS, begins_at, 20) for begins_at in (0, 20, 40)] == [[3], [], []]


def test_it_is_said_again_every_so_many_posts() -> None:
    assert [indexes(OFTEN, begins_at, 20) for begins_at in (0, 20, 40)] == [[3], [3], [3]]
    assert [indexes(OFTEN, begins_at, 15) for begins_at in (0, 15, 30, 45)] == [[3], [8], [13], []]


@pytest.mark.parametrize("size", [0, 3])
def test_a_page_that_ends_before_its_slot_has_none(size: int) -> None:
    assert indexes(NEWS, 0, size) == []


def test_it_may_stand_at_the_very_top() -> None:
    assert indexes(Announcement(text="Hello.", label="From the house", slot=0), 0, 2) == [0]


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 30), st.integers(0, 30))
def test_however_a_walk_is_cut_into_pages_it_stands_before_the_same_posts(
    sizes: list[int], slot: int, every: int
) -> None:
    announcement = Announcement(text="Hello.", label="From the house", slot=slot, every=every)
    begins = [sum(sizes[:page]) for page in range(len(sizes))]
    places = [
        begins_at + index
        for begins_at, size in zip(begins, sizes, strict=True)
        for index in indexes(announcement, begins_at, size)
    ]
    assert places == indexes(announcement, 0, sum(sizes))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12), st.integers(0, 30), st.integers(0, 10))
def test_posts_that_are_withheld_take_none_of_it_away_wherever_pages_end(
    pages: list[tuple[int, int]], slot: int, every: int
) -> None:
    """Each page withholds some posts, shows some, and withholds as many again."""
    announcement = Announcement(text="Hello.", label="From the house", slot=slot, every=every)
    shown: list[int] = []
    said: set[int] = set()
    ends_at = 0
    for withheld, size in pages:
        begins_at, above = ends_at, len(shown)
        places = range(begins_at + withheld, begins_at + withheld + size)
        ends_at = begins_at + 2 * withheld + size
        shown += places
        said |= {above + put.before_index for put in announcement.insertions(7, begins_at, places, ends_at)}
    assert said == {put.before_index for put in announcement.insertions(7, 0, shown, ends_at)}
    assert bool(said) == (slot < ends_at)


@pytest.mark.parametrize("wrong", [{"text": ""}, {"label": ""}, {"slot": -1}, {"every": -1}])
def test_one_that_says_nothing_or_is_not_labelled_is_refused(wrong: dict[str, str | int]) -> None:
    with pytest.raises(ValueError, match="an announcement has"):
        Announcement(**{"text": "Hello.", "label": "From the house", **wrong})  # type: ignore[arg-type]
