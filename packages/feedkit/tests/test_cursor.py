"""A cursor says exactly where a walk goes on, and nothing else is taken for one."""

import pytest
from feedkit.cursor import (
    DEFAULT_PAGE_SIZE,
    EPOCH_MS,
    MAX_ID,
    MAX_PAGE_SIZE,
    TIME_SHIFT,
    Position,
    clamp_page_size,
    created_at_ms,
    first_id_at,
)
from feedkit.errors import InvalidArgument
from hypothesis import example, given
from hypothesis import strategies as st

LAST_MS = created_at_ms(MAX_ID)
ids = st.integers(1, MAX_ID)
# Ids of few milliseconds, so that two of them often share one.
close_ids = st.sampled_from([(ms << TIME_SHIFT) + rest for ms in range(4) for rest in range(6)])
int64s = st.integers(0, MAX_ID)
near_the_ids = st.integers(EPOCH_MS - 2, EPOCH_MS + 6)


@given(ids)
@example(MAX_ID)
def test_a_position_comes_back_from_its_cursor(post_id: int) -> None:
    assert Position.parse(str(Position.of(post_id))) == Position.of(post_id)


@given(int64s, int64s)
def test_a_cursor_made_by_hand_comes_back_as_it_was(ms: int, post_id: int) -> None:
    assert str(Position.parse(f"{ms}:{post_id}")) == f"{ms}:{post_id}"


def test_the_epoch_of_ids_is_the_start_of_2024() -> None:
    assert created_at_ms(1) == 1_704_067_200_000


@given(st.integers(EPOCH_MS, LAST_MS))
def test_the_first_id_of_a_millisecond_is_in_it_and_the_one_before_is_not(ms: int) -> None:
    first = first_id_at(ms)
    assert created_at_ms(first) == ms
    assert first == 0 or created_at_ms(first - 1) == ms - 1


@pytest.mark.parametrize("ms", [-(10**18), 0, EPOCH_MS - 1])
def test_before_the_epoch_every_id_is_later(ms: int) -> None:
    assert first_id_at(ms) == 0


@pytest.mark.parametrize("ms", [LAST_MS + 1, MAX_ID])
def test_after_the_last_millisecond_no_id_is_beyond_int64(ms: int) -> None:
    assert first_id_at(ms) == MAX_ID


@given(ids)
def test_the_bound_of_a_real_position_is_its_post(post_id: int) -> None:
    assert Position.of(post_id).id_bound == post_id


@given(near_the_ids, st.one_of(close_ids, int64s), close_ids)
def test_the_bound_cuts_where_the_order_of_positions_does(ms: int, cursor_id: int, post_id: int) -> None:
    cursor = Position(ms, cursor_id)
    assert (post_id < cursor.id_bound) == (Position.of(post_id) < cursor)


@given(int64s, int64s)
def test_a_bound_is_an_int64(ms: int, post_id: int) -> None:
    assert 0 <= Position(ms, post_id).id_bound <= MAX_ID


def test_no_cursor_stands_for_the_top() -> None:
    assert Position.parse("") is None


JUNK = [
    *["...", "abc", ":", "1:", ":1", "1:2:3", "-1:-1", "9" * 10_240],
    *["01:2", "1:02", "00:0", "+1:2", "1:+2", "1 :2", " 1:2", "1:2\n", "1:2 ", "1_0:2", "0x1:2", "1.0:2", "1e3:2"],
    *["١:٢", "1:２", "1:²", "1\x00:2", "1:2\x00", "1;2", "1-2", "r:abc:0", "null", "%31:2", "\ud800:1", "1:\udfff"],
    *[f"{MAX_ID + 1}:1", f"1:{MAX_ID + 1}", "9999999999999999999:1", "1:18446744073709551616"],
]


@pytest.mark.parametrize("token", JUNK, ids=lambda token: ascii(token)[:30])
def test_junk_is_refused_with_the_field_named(token: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Position.parse(token, "cursor")
    assert refused.value.reason == "INVALID_PAGE_TOKEN"
    assert [violation.field for violation in refused.value.violations] == ["cursor"]


@given(st.text())
def test_any_text_is_a_cursor_or_refused(token: str) -> None:
    try:
        position = Position.parse(token)
    except InvalidArgument:
        return
    assert str(position or "") == token


@pytest.mark.parametrize(
    ("asked", "given"),
    [(0, DEFAULT_PAGE_SIZE), (1, 1), (49, 49), (50, MAX_PAGE_SIZE), (51, MAX_PAGE_SIZE), (2**31 - 1, MAX_PAGE_SIZE)],
)
def test_page_sizes_have_a_default_and_a_limit(asked: int, given: int) -> None:
    assert clamp_page_size(asked) == given
