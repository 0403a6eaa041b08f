"""Which of all processes leads: one by one they hold a lease, and each knows for itself until when it holds it."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)


class Lease(Protocol):
    """A lease that one holds at a time. Every method raises one of NOT_NOW where it cannot be asked for."""

    async def hold(self, name: str, seconds: float) -> bool:
        """Take it, or go on holding it, for so long from now; False where somebody else holds it."""
        ...

    async def give_up(self, name: str) -> None:
        """Let others have it, if this one holds it."""
        ...


class Leading:
    """One process's part in it. To be kept up several times within the life of the lease."""

    def __init__(self, lease: Lease, name: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`name` is this process's alone; `seconds` is how long the lease lives, so how long the dead lead."""
        self._lease = lease
        self._name = name
        self._seconds = seconds
        self._clock = clock
        self._until = float("-inf")
        self._led = False

    def __call__(self) -> bool:
        """Whether this process leads. One that was stopped for a while knows by the clock that it does not any more."""
        return self._clock() < self._until

    async def keep_up(self) -> None:
        """Lead, or go on leading, if nobody else does. Raises one of NOT_NOW."""
        began = self._clock()
        held = await self._lease.hold(self._name, self._seconds)
        # From before the asking, so that it ends here no later than there.
        self._until = began + self._seconds if held else float("-inf")
        if held != self._led:
            logger.info("leads now" if held else "leads no longer", extra={"leader": self._name})
        self._led = held

    async def resign(self) -> None:
        """Let another one lead at once. Raises one of NOT_NOW; then others wait for the end of the lease."""
        if self():
            self._until = float("-inf")
            await self._lease.give_up(self._name)
