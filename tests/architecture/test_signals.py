"""What is observed means the same to those who write it down and to those who predict from it, and share no code."""

import numpy as np
from feedkit import feature_keys
from feedrank import features, signals


def test_sums_have_the_same_columns_where_they_are_written_and_where_they_are_read() -> None:
    assert signals.OBSERVED == feature_keys.SIGNALS == feature_keys.Sums._fields


def test_dwelling_is_the_same_where_it_is_observed_and_where_it_is_predicted() -> None:
    assert signals.DWELL_SECONDS == feature_keys.DWELL_SECONDS


def test_sums_fade_as_fast_where_they_are_written_and_where_they_are_read() -> None:
    assert features.POST_HALF_LIFE == feature_keys.POST_HALF_LIFE
    assert features.AUTHOR_HALF_LIFE == feature_keys.AUTHOR_HALF_LIFE
    assert features.AFFINITY_HALF_LIFE == feature_keys.AFFINITY_HALF_LIFE


def test_values_are_as_long_as_they_are_said_to_be() -> None:
    assert np.dtype(feature_keys.POST_DTYPE).itemsize == feature_keys.POST_BYTES
    assert np.dtype(feature_keys.AUTHOR_DTYPE).itemsize == feature_keys.AUTHOR_BYTES
