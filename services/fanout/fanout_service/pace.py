"""A limit on how often something is begun."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic


class Pace:
    """Spreads beginnings evenly: each waits for its turn. Who comes after a quiet time does not wait."""

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = 1 / per_second
        self._clock = clock
        self._sleep = sleep
        self._next = clock()

    async def turn(self) -> None:
        """Wait for one's turn."""
        now = self._clock()
        turn = max(now, self._next)
        self._next = turn + self._interval
        if turn > now:
            await self._sleep(turn - now)
