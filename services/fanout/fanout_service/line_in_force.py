"""The celebrity line as this process knows it, and, where it leads, moves it."""

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from fanout_service.attempts import NOT_NOW
from fanout_service.celebrity_line import Cause, CelebrityLine, Line

KNOWN_SECONDS = 60.0
"""How long what was known last holds where nothing can be learnt. A failover takes less, and nobody moves a line that is
remembered for longer."""

Milliseconds = Callable[[], int]


def unix_ms() -> int:
    """The time of day."""
    return int(time.time() * 1000)


class Lines(Protocol):
    """Where all processes find the line. Every method raises one of NOT_NOW where that does not answer."""

    async def read(self) -> Line | None:
        """The line; None where it is not told."""
        ...

    async def write(self, line: Line) -> None:
        """Tell it."""
        ...


class _Heard(NamedTuple):
    line: Line
    at: float


class LineInForce:
    """The line that holds now, for everybody who classifies authors."""

    def __init__(
        self,
        lines: Lines,
        celebrity_line: CelebrityLine,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Milliseconds = unix_ms,
    ) -> None:
        """`clock` gives seconds, `now_ms` Unix milliseconds."""
        self._lines = lines
        self._celebrity_line = celebrity_line
        self._clock = clock
        self._now_ms = now_ms
        self._heard: _Heard | None = None
        self._line = celebrity_line.within_limits(None, now_ms())

    @property
    def line(self) -> Line:
        """The line. What was heard last holds for `KNOWN_SECONDS`, then the setting does."""
        known = self._heard if self._heard and self._clock() - self._heard.at < KNOWN_SECONDS else None
        line = self._celebrity_line.within_limits(known and known.line, self._now_ms())
        if line[:2] != self._line[:2] or (known and line == known.line):
            self._line = line
        return self._line

    @property
    def threshold(self) -> int:
        """The follower count from which an author is pulled."""
        return self.line.threshold

    async def refresh(self) -> None:
        """Look where the line is. Raises one of NOT_NOW."""
        line = await self._lines.read()
        # Any key may vanish; absence says nothing.
        if line is not None:
            self._heard = _Heard(line, self._clock())

    async def tell(self, line: Line) -> None:
        """Move it, for everybody. Raises one of NOT_NOW."""
        await self._lines.write(line)
        self._heard = _Heard(line, self._clock())


class LineControl:
    """Moves the line while this process leads. Several that do come to no harm, since each step is within the limits."""

    def __init__(
        self,
        in_force: LineInForce,
        celebrity_line: CelebrityLine,
        lag_ms: Callable[[], Awaitable[int]],
        leads: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Milliseconds = unix_ms,
    ) -> None:
        """`lag_ms` tells the age of the oldest event that is not handled, and raises one of NOT_NOW where nobody can."""
        self._in_force = in_force
        self._celebrity_line = celebrity_line
        self._lag_ms = lag_ms
        self._leads = leads
        self._clock = clock
        self._now_ms = now_ms

    async def step(self) -> None:
        """Look at the lag, and move the line if that calls for it. Raises one of NOT_NOW where the line cannot be told."""
        if not self._leads():
            self._celebrity_line.look_away()
            return
        try:
            await self._in_force.refresh()
        except NOT_NOW:
            self._celebrity_line.look_away()
            raise
        lag_ms = await self._lag() if self._celebrity_line.limits.is_movable else None
        line = self._celebrity_line.moved(self._in_force.line, lag_ms, self._clock(), self._now_ms())
        # It may have taken long to learn the lag.
        if self._leads():
            await self._in_force.tell(line)

    async def _lag(self) -> int | None:
        try:
            return await self._lag_ms()
        except NOT_NOW:
            return None

    @property
    def is_calm(self) -> bool:
        """Whether there is room for work that can wait."""
        return self._leads() and self._in_force.line.cause is not Cause.LAG
