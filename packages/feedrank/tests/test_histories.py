"""Sums of the past equal those that a mesh would have had then, counting one at a time."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from feedrank.histories import Histories
from hypothesis import given
from hypothesis import strategies as st


class Addend(NamedTuple):
    group: int
    at_ms: int
    value: float


ADDENDS = st.lists(
    st.builds(Addend, st.integers(0, 3), st.integers(0, 20_000), st.sampled_from([1.0, 1.0, 0.25, -1.0])), max_size=40
)


def one_at_a_time(
    addends: list[Addend], group: int, before_ms: int, half_life: float, floor: float
) -> tuple[float, float]:
    total, since = 0.0, 0
    for addend in sorted(addends, key=lambda addend: addend.at_ms):
        if addend.group == group and addend.at_ms < before_ms:
            faded = total * 2 ** ((since - addend.at_ms) / 1_000 / half_life)
            total, since = max(faded + addend.value, floor), addend.at_ms
    return total, since


@given(
    ADDENDS,
    st.integers(0, 4),
    st.integers(-5, 20_005),
    st.sampled_from([2.0, math.inf]),
    st.sampled_from([0.0, -math.inf]),
)
def test_sums_are_those_of_counting_one_at_a_time(
    addends: list[Addend], group: int, before_ms: int, half_life: float, floor: float
) -> None:
    groups = np.array([addend.group for addend in addends], np.int64)
    at_ms = np.array([addend.at_ms for addend in addends], np.int64)
    values = np.array([addend.value for addend in addends], np.float64)
    histories = Histories(groups, at_ms, values[:, None], half_life=half_life, floor=floor)
    sums, since = histories.before(np.array([group]), np.array([before_ms]))
    assert (sums[0, 0], since[0]) == pytest.approx(one_at_a_time(addends, group, before_ms, half_life, floor))


def test_what_was_added_at_the_time_itself_does_not_count_yet() -> None:
    histories = Histories(np.array([7]), np.array([1_000]), np.array([[1.0, 2.0]]))
    sums, _ = histories.before(np.array([7, 7]), np.array([1_000, 1_001]))
    assert sums.tolist() == [[0.0, 0.0], [1.0, 2.0]]


def test_sums_fade_by_half_in_a_half_life_until_they_are_asked_for() -> None:
    histories = Histories(np.array([7]), np.array([0]), np.array([[8.0]]), half_life=10.0)
    assert histories.faded_before(np.array([7, 7]), np.array([10_000, 30_000])).ravel().tolist() == [4.0, 1.0]


def test_groups_and_times_may_be_as_large_as_ids_and_clocks() -> None:
    groups = np.array([2**62, 2**62, 1])
    histories = Histories(groups, np.array([1_700_000_000_000, 1_900_000_000_000, 5]), np.ones((3, 1)))
    sums, _ = histories.before(groups, np.full(3, 1_800_000_000_000))
    assert sums.ravel().tolist() == [1.0, 1.0, 1.0]
