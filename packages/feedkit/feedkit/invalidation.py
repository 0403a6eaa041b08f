"""Tells caches of changes that are committed, before they are acknowledged: the very next read has to show them.

Redis may not answer just then. A change is not failed for that, nor kept waiting for long: its keys are deleted as soon
as Redis answers again, behind the change and as often as it takes. Readers do not reach a Redis that is away either, and
read the truth meanwhile. That it is away is found out after the change, and not believed from before: readers may have
noticed already that it is back, and filled in what was true before the change. The event of the change, whose handler
deletes the keys once more, is for processes that die.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextvars import Context
from types import TracebackType
from typing import Self

from feedkit import deadline, key_scripts
from feedkit.errors import DeadlineExceeded, Unavailable
from feedkit.redis import Command, Redis

logger = logging.getLogger(__name__)

ATTEMPT_SECONDS = 0.3
PAUSE_SECONDS = 0.05
"""Between attempts: for a server that has just been restarted."""
MOST_OWED = 100_000
"""How many keys that have yet to be deleted are remembered. The oldest are dropped first; they live only minutes anyway."""
AT_ONCE = 1000

_NOT_NOW = (Unavailable, DeadlineExceeded)


class Invalidation:
    """An asynchronous context manager, which owns the deletions that are still owed."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._owed: dict[str, None] = {}
        self._paying: asyncio.Task[None] | None = None

    async def forget(self, *stale: str) -> None:
        """Delete keys of cached values."""
        await self.change(_deletions(stale), stale)

    async def change(self, commands: Sequence[Command], stale: Sequence[str]) -> None:
        """Run commands that bring cached values up to date; where that fails, delete the keys, `stale`, instead.

        Deleting is always right, because an absent key is unknown, and works even where Redis is too full to write.
        Returns within a second. It does not fail where Redis is away.
        """
        if await self._done(commands):
            return
        await asyncio.sleep(PAUSE_SECONDS)
        if not await self._done(_deletions(stale)):
            self._owe(stale)

    async def _done(self, commands: Sequence[Command]) -> bool:
        try:
            # As a deadline, so that the client takes notice of the silence; a cancelled call would tell it nothing.
            with deadline.within(ATTEMPT_SECONDS):
                await self._redis.insist(*commands)
        except _NOT_NOW as error:
            logger.info("caches were not told of a change: %s", error)
            return False
        return True

    def _owe(self, stale: Sequence[str]) -> None:
        if not self._owed:
            logger.warning("caches may be out of date until Redis answers again")
        for key in stale:
            self._owed.pop(key, None)
            self._owed[key] = None
        while len(self._owed) > MOST_OWED:
            del self._owed[next(iter(self._owed))]
        if self._paying is None or self._paying.done():
            # In a context of its own: it outlives the request, whose deadline and trace do not matter to it.
            self._paying = asyncio.create_task(self._pay(), context=Context())

    async def _pay(self) -> None:
        while self._owed:
            await asyncio.sleep(PAUSE_SECONDS)
            some = list(self._owed)[:AT_ONCE]
            # Taken off first: a key that becomes owed meanwhile has to be deleted after that, not before.
            for key in some:
                del self._owed[key]
            if not await self._done(_deletions(some)):
                self._owed = dict.fromkeys(some) | self._owed
        logger.info("caches are up to date again")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; what is still owed is left to the events."""
        if self._paying is not None:
            self._paying.cancel()
            await asyncio.wait([self._paying])
        if self._owed:
            logger.warning("caches were not told of all changes at the end", extra={"keys": len(self._owed)})


def _deletions(stale: Sequence[str]) -> list[Command]:
    return [key_scripts.forget(key) for key in stale]
