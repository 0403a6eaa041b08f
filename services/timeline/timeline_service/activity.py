"""Viewers' activity, told to `graph` behind the reads that show it.

A read only leaves a note. It is neither delayed nor failed by what becomes of the note: workers of the process pass notes
on, and a note that is lost is made again by the viewer's next read.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from feedkit.errors import FeedError

logger = logging.getLogger(__name__)

SECONDS_A_DAY = 86_400
WORKERS = 4
WAITING = 10_000
"""How many notes may wait. When a day begins every viewer makes one, and `graph` gets them no faster than WORKERS can."""
FINISH_SECONDS = 2.0
"""How long a stopping process goes on passing notes on."""


class Activity:
    """Tells of each viewer at most once a day (UTC). An asynchronous context manager, which owns the workers."""

    def __init__(
        self, record: Callable[[int], Awaitable[None]], clock: Callable[[], float], *, remembered: int
    ) -> None:
        """`record` tells of one viewer; `clock` gives Unix seconds; `remembered` bounds the viewers kept in mind.

        A viewer who is forgotten for others is told of again, which `graph` takes without writing.
        """
        self._record = record
        self._clock = clock
        self._remembered = remembered
        self._day = 0
        self._seen: dict[int, None] = {}
        self._notes: asyncio.Queue[int] = asyncio.Queue(WAITING)
        self._workers: list[asyncio.Task[None]] = []

    def seen(self, viewer_id: int) -> None:
        """Note that a viewer is active now. Neither waits nor fails."""
        day = int(self._clock() // SECONDS_A_DAY)
        if day != self._day:
            self._day = day
            self._seen.clear()
        if viewer_id in self._seen or self._notes.full():
            return
        if len(self._seen) >= self._remembered:
            del self._seen[next(iter(self._seen))]
        self._seen[viewer_id] = None
        self._notes.put_nowait(viewer_id)

    async def __aenter__(self) -> Self:
        self._workers = [asyncio.create_task(self._pass_on()) for _ in range(WORKERS)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await self._notes.join()
        except TimeoutError:
            logger.warning("stopped before all activity was recorded", extra={"waiting": self._notes.qsize()})
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _pass_on(self) -> None:
        while True:
            viewer_id = await self._notes.get()
            try:
                await self._record(viewer_id)
            except FeedError as error:
                # Forgotten, so that the next read tries again.
                self._seen.pop(viewer_id, None)
                logger.warning("activity not recorded: %s", error.message, extra={"viewer_id": viewer_id})
            except Exception:
                logger.exception("activity not recorded", extra={"viewer_id": viewer_id})
            finally:
                self._notes.task_done()
