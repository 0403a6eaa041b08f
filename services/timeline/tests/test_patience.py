"""A call to another service leaves time to answer."""

from timeline_service.patience import ANSWER_SECONDS, share


def test_time_is_kept_for_the_answer() -> None:
    assert share(1.0) == 1.0 - ANSWER_SECONDS


def test_of_a_short_deadline_half_is_for_the_call() -> None:
    assert share(0.05) == 0.025
