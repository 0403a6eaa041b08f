"""A call to another service leaves time to answer."""

import pytest
from feedkit import deadline
from feedkit.errors import DeadlineExceeded
from hydrate_service.patience import ANSWER_SECONDS, seconds_for_a_call


async def test_time_is_kept_for_the_answer() -> None:
    with deadline.within(1.0):
        assert seconds_for_a_call() <= 1.0 - ANSWER_SECONDS


async def test_a_short_deadline_still_leaves_half_of_it_for_the_call() -> None:
    with deadline.within(0.05):
        assert 0.01 < seconds_for_a_call() < 0.03


async def test_no_call_is_made_where_nothing_is_left() -> None:
    with deadline.within(0), pytest.raises(DeadlineExceeded):
        seconds_for_a_call()
