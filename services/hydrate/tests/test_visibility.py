"""What is withheld from whom, where, and for which reason."""

from collections.abc import Collection

import pytest
from hydrate_service.visibility import (
    NOTHING_HIDDEN,
    RULES,
    Author,
    Hides,
    Surface,
    Unavailable,
    Viewing,
    Withheld,
    blocked,
    judged,
    muted,
    suspended,
)
from hypothesis import given
from hypothesis import strategies as st

ANN = Author(7, "Ann")
GONE_BAD = Author(8, "Bob", suspended=True)
VIEWER, POST, FEED = 5, Surface.POST, Surface.FEED
UNKNOWN = Unavailable("graph")


def hides(*, blocked: Collection[int] = (), muted: Collection[int] = (), more_block: bool = False) -> Hides:
    """What is hidden from the viewer."""
    return Hides(blocked, muted, more_block)


# --- each rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("viewer_id", [0, VIEWER, GONE_BAD.id], ids=["nobody", "another", "the author"])
@pytest.mark.parametrize("surface", Surface)
def test_what_a_suspended_author_wrote_is_shown_to_nobody(viewer_id: int, surface: Surface) -> None:
    viewing = Viewing(viewer_id, surface, NOTHING_HIDDEN)
    assert suspended(GONE_BAD, viewing) is Withheld.AUTHOR_SUSPENDED
    assert suspended(ANN, viewing) is None


@pytest.mark.parametrize("surface", Surface)
def test_a_block_hides_everywhere(surface: Surface) -> None:
    assert blocked(ANN, Viewing(VIEWER, surface, hides(blocked=[7]))) is Withheld.BLOCKED
    assert blocked(ANN, Viewing(VIEWER, surface, hides(blocked=[8], muted=[7]))) is None


@pytest.mark.parametrize("surface", Surface)
def test_where_more_block_than_are_listed_those_who_are_not_listed_are_not_shown(surface: Surface) -> None:
    viewing = Viewing(VIEWER, surface, hides(blocked=[7], more_block=True))
    assert blocked(ANN, viewing) is Withheld.BLOCKED
    assert blocked(Author(9, "Cem"), viewing) == UNKNOWN


def test_a_mute_hides_in_feeds_alone() -> None:
    assert muted(ANN, Viewing(VIEWER, FEED, hides(muted=[7]))) is Withheld.MUTED
    assert muted(ANN, Viewing(VIEWER, POST, hides(muted=[7]))) is None
    assert muted(ANN, Viewing(VIEWER, FEED, hides(muted=[8], blocked=[7]))) is None


def test_nothing_is_shown_of_others_as_long_as_hides_are_unknown() -> None:
    assert blocked(ANN, Viewing(VIEWER, POST, None)) == UNKNOWN
    assert muted(ANN, Viewing(VIEWER, FEED, None)) == UNKNOWN
    assert muted(ANN, Viewing(VIEWER, POST, None)) is None, "there a mute does not matter"


@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("known", [None, hides(more_block=True)], ids=["unknown", "more block"])
def test_no_hides_have_to_be_known_for_ones_own_posts(surface: Surface, known: Hides | None) -> None:
    viewing = Viewing(ANN.id, surface, known)
    assert (blocked(ANN, viewing), muted(ANN, viewing)) == (None, None)


# --- all together -----------------------------------------------------------------------------------------------------


def test_an_author_who_may_be_shown_is_told() -> None:
    assert judged([7], {7: ANN}, Viewing(VIEWER, FEED, NOTHING_HIDDEN)) == {7: ANN}


def test_an_author_who_does_not_exist_and_one_who_is_not_known_now_are_not_shown() -> None:
    viewing = Viewing(VIEWER, FEED, hides(blocked=[7, 9], muted=[7, 9]))
    assert judged([9, 7], {9: None}, viewing) == {9: Withheld.AUTHOR_NOT_FOUND, 7: UNKNOWN}


authors = st.builds(Author, st.just(7), st.just("Ann"), st.booleans())
viewings = st.builds(
    Viewing,
    st.sampled_from([0, VIEWER, 7]),
    st.sampled_from(Surface),
    st.none() | st.builds(Hides, st.sets(st.integers(6, 8)), st.sets(st.integers(6, 8)), st.booleans()),
)


@given(authors, viewings)
def test_the_reason_is_the_first_in_the_documented_order_that_applies(author: Author, viewing: Viewing) -> None:
    judgement = judged([7], {7: author}, viewing)[7]
    objections = [objection for rule in RULES if (objection := rule(author, viewing)) is not None]
    assert judgement == (objections[0] if objections else author)
    reasons = [objection for objection in objections if isinstance(objection, Withheld)]
    assert reasons == sorted(reasons, key=list(Withheld).index)


@given(authors, viewings)
def test_what_is_shown_is_shown_because_everything_is_known(author: Author, viewing: Viewing) -> None:
    if isinstance(judged([7], {7: author}, viewing)[7], Author):
        assert not author.suspended
        if viewing.viewer_id != author.id:
            assert viewing.hides is not None
            assert 7 not in viewing.hides.blocked
            assert not viewing.hides.more_block
            assert viewing.surface is not FEED or 7 not in viewing.hides.muted
