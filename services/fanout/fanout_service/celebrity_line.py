"""The celebrity line: from how many followers an author is pulled. Lag moves it down, and quiet lets it come back.

Pushing is what makes fan-out lag, so where it lags more authors are pulled until it has caught up. The line falls fast and
returns slowly, and between the two limits of lag it stays where it is, so that it does not swing.
"""

from enum import Enum
from typing import NamedTuple


class Cause(Enum):
    """Why the line is where it is."""

    CONFIGURED = "CONFIGURED"
    """It is where the setting wants it."""
    LAG = "LAG"
    """Lag has passed its limit."""
    RECOVERING = "RECOVERING"
    """Lag is gone, and the line on its way back."""


class Line(NamedTuple):
    """Where the line is."""

    threshold: int
    """The follower count from which an author is pulled."""
    cause: Cause
    since_ms: int
    """Since when it has been there, in Unix milliseconds."""


class Limits(NamedTuple):
    """Between what the line moves, and when."""

    configured: int
    """Where it is without lag."""
    floor: int
    """Where it falls to at most. If that is not below `configured`, the line never moves."""
    lag_limit_ms: float
    """It falls while the oldest event that is not handled is older."""
    lag_clear_ms: float
    """It returns while the oldest such event is younger; less than `lag_limit_ms`."""
    clear_for_seconds: float
    """How long that has to be so before each step back."""

    @property
    def is_movable(self) -> bool:
        """Whether there is any room."""
        return self.floor < self.configured


class CelebrityLine:
    """Decides where the line goes. Whoever does must look at the lag again and again, and say so when it stops to look."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._clear_since: float | None = None

    def within_limits(self, line: Line | None, now_ms: int) -> Line:
        """A line that was found, as far as it is possible with these limits; it may be from before a setting was changed.

        None: nothing is known of any line.
        """
        configured = Line(self.limits.configured, Cause.CONFIGURED, now_ms)
        if line is None:
            return configured
        if line.cause is Cause.CONFIGURED or not self.limits.is_movable:
            return line if line[:2] == configured[:2] else configured
        threshold = max(line.threshold, self.limits.floor)
        if threshold >= self.limits.configured:
            return configured
        return line if threshold == line.threshold else Line(threshold, line.cause, now_ms)

    def moved(self, line: Line, lag_ms: int | None, seconds: float, now_ms: int) -> Line:
        """Where a line within the limits is after this look at the lag, None where that cannot be known.

        `seconds` is of any clock that never goes back.
        """
        if lag_ms is None or lag_ms >= self.limits.lag_clear_ms or line.cause is Cause.CONFIGURED:
            self._clear_since = None
        elif self._clear_since is None:
            self._clear_since = seconds
        if lag_ms is not None and lag_ms > self.limits.lag_limit_ms:
            return self._to(max(line.threshold // 2, self.limits.floor), Cause.LAG, line, now_ms)
        if self._clear_since is not None and seconds - self._clear_since >= self.limits.clear_for_seconds:
            self._clear_since = seconds
            return self._to(2 * line.threshold, Cause.RECOVERING, line, now_ms)
        return line

    def look_away(self) -> None:
        """From now on nobody knows whether the lag stays away."""
        self._clear_since = None

    def _to(self, threshold: int, cause: Cause, line: Line, now_ms: int) -> Line:
        if threshold >= self.limits.configured:
            threshold, cause = self.limits.configured, Cause.CONFIGURED
        return line if threshold == line.threshold else Line(threshold, cause, now_ms)
