"""The celebrity line falls fast under lag, rests between the limits, and returns slowly when lag stays away."""

from collections.abc import Sequence

import pytest
from fanout_service.celebrity_line import Cause, CelebrityLine, Limits, Line
from hypothesis import given
from hypothesis import strategies as st

LIMITS = Limits(configured=10_000, floor=1000, lag_limit_ms=10_000, lag_clear_ms=2000, clear_for_seconds=60)
STEP = 5
HIGH, BETWEEN, NONE = 10_001, 5000, 0
START_MS = 1_000_000


def moved(lags: Sequence[int | None], limits: Limits = LIMITS, line: Line | None = None) -> list[Line]:
    """Where the line is after each look, `STEP` seconds apart."""
    celebrity_line = CelebrityLine(limits)
    line = celebrity_line.within_limits(line, START_MS)
    lines: list[Line] = []
    for number, lag in enumerate(lags):
        line = celebrity_line.moved(line, lag, number * STEP, START_MS + number * STEP * 1000)
        lines.append(line)
    return lines


def thresholds(lags: Sequence[int | None], limits: Limits = LIMITS) -> list[int]:
    return [line.threshold for line in moved(lags, limits)]


def test_it_is_halved_at_each_look_at_lag_over_the_limit_down_to_the_floor() -> None:
    assert thresholds([HIGH] * 6) == [5000, 2500, 1250, 1000, 1000, 1000]


def test_lag_at_the_limit_moves_nothing() -> None:
    assert thresholds([10_000, 2000, BETWEEN]) == [10_000] * 3


def test_it_doubles_when_lag_was_away_long_enough_and_again_after_as_long() -> None:
    looks = 60 // STEP
    calm = moved([HIGH] * 4 + [NONE] * (4 * looks + 1))[4:]
    steps = [(line.threshold, line.cause) for line in calm]
    assert steps[looks - 1] == (1000, Cause.LAG)
    assert steps[looks] == (2000, Cause.RECOVERING)
    assert steps[2 * looks - 1] == (2000, Cause.RECOVERING)
    assert steps[2 * looks] == (4000, Cause.RECOVERING)
    assert steps[3 * looks] == (8000, Cause.RECOVERING)
    assert steps[4 * looks] == (10_000, Cause.CONFIGURED), "no further than the setting"


@pytest.mark.parametrize("interruption", [BETWEEN, 2000, None])
def test_whatever_interrupts_the_calm_lets_it_begin_anew(interruption: int | None) -> None:
    almost = [NONE] * (60 // STEP)
    assert thresholds([HIGH, *almost, interruption, *almost]) == [5000] * (2 * len(almost) + 2)


def test_the_calm_begins_anew_after_looking_away() -> None:
    celebrity_line = CelebrityLine(LIMITS)
    line = celebrity_line.moved(celebrity_line.within_limits(None, 0), HIGH, 0, 0)
    assert celebrity_line.moved(line, NONE, 1, 0) == line
    celebrity_line.look_away()
    assert celebrity_line.moved(line, NONE, 100, 0) == line
    assert celebrity_line.moved(line, NONE, 160, 0).threshold == 10_000


def test_an_unknown_lag_moves_nothing() -> None:
    assert thresholds([HIGH, *[None] * 100]) == [5000] * 101


def test_it_tells_since_when_it_is_where_it_is_and_why() -> None:
    lines = moved([BETWEEN, HIGH, BETWEEN, HIGH, HIGH, HIGH, HIGH])
    assert [(line.cause, line.since_ms - START_MS) for line in lines] == [
        (Cause.CONFIGURED, 0),
        (Cause.LAG, 5000),
        (Cause.LAG, 5000),
        (Cause.LAG, 15_000),
        (Cause.LAG, 20_000),
        (Cause.LAG, 25_000),
        (Cause.LAG, 25_000),
    ]


@pytest.mark.parametrize("configured", [0, 1, 999, 1000])
def test_a_setting_at_or_below_the_floor_is_never_moved(configured: int) -> None:
    limits = LIMITS._replace(configured=configured)
    assert not limits.is_movable
    lines = moved([HIGH, NONE, None], limits, Line(500, Cause.LAG, 7))
    assert {(line.threshold, line.cause) for line in lines} == {(configured, Cause.CONFIGURED)}


@pytest.mark.parametrize(
    ("found", "configured", "right"),
    [
        pytest.param(None, 10_000, (10_000, Cause.CONFIGURED, START_MS), id="nothing is known"),
        pytest.param((10_000, Cause.CONFIGURED, 7), 10_000, (10_000, Cause.CONFIGURED, 7), id="the same setting"),
        pytest.param((10_000, Cause.CONFIGURED, 7), 20_000, (20_000, Cause.CONFIGURED, START_MS), id="raised"),
        pytest.param((10_000, Cause.CONFIGURED, 7), 2000, (2000, Cause.CONFIGURED, START_MS), id="lowered"),
        pytest.param((2500, Cause.LAG, 7), 20_000, (2500, Cause.LAG, 7), id="raised under lag"),
        pytest.param((2500, Cause.LAG, 7), 2000, (2000, Cause.CONFIGURED, START_MS), id="lowered under lag, below"),
        pytest.param((2500, Cause.RECOVERING, 7), 2500, (2500, Cause.CONFIGURED, START_MS), id="lowered to the same"),
        pytest.param((10, Cause.LAG, 7), 10_000, (1000, Cause.LAG, START_MS), id="below the floor"),
    ],
)
def test_a_line_of_before_a_setting_was_changed_is_brought_within_the_limits(
    found: tuple[int, Cause, int] | None, configured: int, right: tuple[int, Cause, int]
) -> None:
    celebrity_line = CelebrityLine(LIMITS._replace(configured=configured))
    assert celebrity_line.within_limits(found and Line(*found), START_MS) == right


lags = st.one_of(st.none(), st.sampled_from([0, 1999, 2000, 5000, 10_000, 10_001]), st.integers(0, 100_000))


@given(st.lists(lags, max_size=60), st.integers(0, 40_000), st.integers(1, 5000), st.data())
def test_whatever_the_lag_it_stays_within_the_limits_rests_between_them_and_returns_in_the_end(
    seen: list[int | None], configured: int, floor: int, data: st.DataObject
) -> None:
    limits = LIMITS._replace(configured=configured, floor=floor)
    celebrity_line = CelebrityLine(limits)
    line = celebrity_line.within_limits(None, 0)
    seconds = 0.0
    rose_at = float("-inf")
    fell_at = float("-inf")
    for lag in seen:
        seconds += data.draw(st.floats(0.1, 100))
        before, line = line, celebrity_line.moved(line, lag, seconds, int(seconds * 1000))
        assert min(floor, configured) <= line.threshold <= configured
        assert (line.cause is Cause.CONFIGURED) == (line.threshold == configured)
        if lag is None or 2000 <= lag <= 10_000:
            assert line == before
        if line.threshold < before.threshold:
            assert lag is not None
            assert lag > 10_000
            fell_at = seconds
        elif line.threshold > before.threshold:
            assert lag is not None
            assert lag < 2000
            assert seconds - max(fell_at, rose_at) >= 60, "it is not in a hurry"
            rose_at = seconds
        else:
            assert line == before
    for _ in range(2 + 16 * (60 // STEP + 1)):
        seconds += STEP
        line = celebrity_line.moved(line, 0, seconds, 0)
    assert line.threshold == configured
