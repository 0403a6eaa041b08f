"""What is observed means the same to those who write it down and to those who predict from it, and share no code."""

from feedkit import feature_keys
from feedrank import signals


def test_sums_have_the_same_columns_where_they_are_written_and_where_they_are_read() -> None:
    assert signals.OBSERVED == feature_keys.SIGNALS == feature_keys.Sums._fields


def test_dwelling_is_the_same_where_it_is_observed_and_where_it_is_predicted() -> None:
    assert signals.DWELL_SECONDS == feature_keys.DWELL_SECONDS
