"""Which authors are pulled: the posts of these are not pushed to timelines, but read from the authors' recents.

The index is kept in memory and refreshed from `graph` all the time. An author enters it there before the first of their
posts that is not pushed counts as delivered. So whoever knows the index as it was a moment ago misses no post that is older
than that moment; and whoever does not know it so recently takes it as unknown, and has everything pulled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from timeline_service.source import NOT_NOW

logger = logging.getLogger(__name__)

REFRESHES = 4
"""How often the index is refreshed while it stays known without."""


class Changes(NamedTuple):
    """What has changed in the index since a version of it."""

    version: int
    entered: Sequence[int]
    """Who has entered and is in it."""
    left: Sequence[int] = ()
    """Who has left and is not in it."""


class PulledIndex:
    """The index, as it was no longer ago than it may be. An asynchronous context manager, which owns the refreshing."""

    def __init__(
        self, changes: Callable[[int], Awaitable[Changes]], clock: Callable[[], float], *, staleness: float
    ) -> None:
        """`changes` tells what has changed since a version, everything since 0, or raises one of source.NOT_NOW.

        `clock` gives seconds; `staleness` is how many seconds the index stays known.
        """
        self._changes = changes
        self._clock = clock
        self._staleness = staleness
        self._version = 0
        self._authors: frozenset[int] = frozenset()
        # Who was announced, and when, the longest ago first.
        self._announced: dict[int, float] = {}
        self._known_at: float | None = None
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def authors(self) -> frozenset[int] | None:
        """The authors who are pulled; None where that is not known now.

        To be looked up before timelines are read: an author leaves only when all timelines have the author's posts.
        """
        now = self._clock()
        if self._known_at is None or now - self._known_at >= self._staleness:
            return None
        while self._announced and now - self._announced[first := next(iter(self._announced))] >= self._staleness:
            del self._announced[first]
        news = [author_id for author_id in self._announced if author_id not in self._authors]
        return self._authors.union(news) if news else self._authors

    def entered(self, author_id: int) -> None:
        """Take note of an author who was announced to be pulled.

        Only until the index, as long as it is known, tells by itself. An announcement may come late, after the author has
        left, and must not keep them; and it may come before the answer to a question that was asked before it.
        """
        self._announced.pop(author_id, None)
        self._announced[author_id] = self._clock()

    async def refresh(self) -> None:
        """Ask for what has changed. Raises one of source.NOT_NOW, or TimeoutError when the answer would come too late."""
        began = self._clock()
        async with asyncio.timeout(self._staleness):
            changes = await self._changes(self._version)
        self._version = changes.version
        if changes.entered or changes.left:
            self._authors = self._authors.union(changes.entered).difference(changes.left)
        self._known_at = began

    async def __aenter__(self) -> Self:
        self._refreshing = asyncio.create_task(self._keep_refreshing())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _keep_refreshing(self) -> None:
        failing = False
        while True:
            try:
                await self.refresh()
            except (*NOT_NOW, TimeoutError) as error:
                if not failing:
                    logger.warning("which authors are pulled cannot be refreshed: %s", error or "no answer")
                failing = True
            except Exception:
                logger.exception("which authors are pulled cannot be refreshed")
                failing = True
            else:
                if failing:
                    logger.info("which authors are pulled is refreshed again")
                failing = False
            await asyncio.sleep(self._staleness / REFRESHES)
