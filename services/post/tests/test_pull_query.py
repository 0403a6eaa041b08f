"""The shares of the pull query always suffice to find a floor and a bound, if everybody wrote enough."""

from hypothesis import given
from hypothesis import strategies as st
from post_service.pull_query import SAMPLE, arguments

AUTHORS = st.lists(st.integers(1, 10**6), min_size=1, max_size=300, unique=True)
LIMITS = st.integers(1, 1000)


@given(AUTHORS, LIMITS)
def test_even_shares_hold_the_whole_answer(authors: list[int], limit: int) -> None:
    plan = arguments(authors, 5, limit)
    assert len(plan.author_ids) * plan.share >= limit
    assert len(plan.sample) * plan.sample_share >= limit


@given(AUTHORS, LIMITS)
def test_no_share_exceeds_the_answer(authors: list[int], limit: int) -> None:
    plan = arguments(authors, 5, limit)
    assert max(plan.share, plan.sample_share) <= limit


@given(AUTHORS)
def test_the_sample_is_some_of_the_authors_and_small(authors: list[int]) -> None:
    plan = arguments(authors, 5, 10)
    assert set(plan.sample) <= set(authors)
    assert 1 <= len(plan.sample) <= SAMPLE
