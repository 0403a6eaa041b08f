"""Snowflake ids: ascending, never twice, and never from a clock that is behind."""

import pytest
from feedkit.cursor import EPOCH_MS, created_at_ms
from hypothesis import given
from hypothesis import strategies as st
from post_service.snowflake import SEQUENCES, Early, Snowflakes

NOW_MS = EPOCH_MS + 90 * 86_400_000


def test_an_id_carries_millisecond_worker_and_sequence() -> None:
    ids = Snowflakes(worker=1023, floor_ms=0)
    ids.take(NOW_MS)
    post_id = ids.take(NOW_MS)
    assert (created_at_ms(post_id), (post_id >> 12) & 1023, post_id & 4095) == (NOW_MS, 1023, 1)


@given(
    floor_ms=st.integers(NOW_MS, NOW_MS + 5),
    clock=st.lists(st.integers(NOW_MS - 20, NOW_MS + 60), max_size=200),
)
def test_ids_ascend_whatever_the_clock_does(floor_ms: int, clock: list[int]) -> None:
    ids = Snowflakes(7, floor_ms)
    made: list[int] = []
    for now_ms in clock:
        try:
            made.append(ids.take(now_ms))
        except Early as early:
            made.append(ids.take(now_ms + early.wait_ms))
    assert made == sorted(set(made))
    assert all(created_at_ms(post_id) >= floor_ms for post_id in made)


def test_no_id_is_made_before_the_floor() -> None:
    with pytest.raises(Early) as early:
        Snowflakes(0, NOW_MS + 30).take(NOW_MS)
    assert early.value.wait_ms == 30


def test_a_millisecond_that_is_used_up_asks_for_the_next_one() -> None:
    ids = Snowflakes(0, 0)
    made = {ids.take(NOW_MS) for _ in range(SEQUENCES)}
    with pytest.raises(Early) as early:
        ids.take(NOW_MS)
    assert (len(made), early.value.wait_ms) == (SEQUENCES, 1)
    assert ids.take(NOW_MS + 1) > max(made)


def test_a_backward_step_is_noticed_although_no_id_was_made_meanwhile() -> None:
    ids = Snowflakes(0, 0)
    ids.observe(NOW_MS)
    with pytest.raises(Early) as early:
        ids.take(NOW_MS - 5000)
    assert early.value.wait_ms == 5000


def test_a_clock_before_the_epoch_of_ids_makes_none() -> None:
    with pytest.raises(Early):
        Snowflakes(0, 0).take(EPOCH_MS - 1)


@given(st.lists(st.integers(NOW_MS, NOW_MS + 3), max_size=20))
def test_the_first_unused_millisecond_is_above_every_id(clock: list[int]) -> None:
    ids = Snowflakes(0, NOW_MS)
    made = [ids.take(now_ms) for now_ms in sorted(clock)]
    assert all(created_at_ms(post_id) < ids.unused_ms for post_id in made)
