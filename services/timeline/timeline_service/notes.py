"""Notes about viewers that reads leave behind, and workers of the process pass on to other services.

A read is neither delayed nor failed by what becomes of its note. A note that is lost is made again by a later read.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from feedkit.errors import FeedError

logger = logging.getLogger(__name__)

WORKERS = 4
WAITING = 10_000
"""How many notes may wait. Who is told gets them no faster than WORKERS can, though all viewers may make one at once."""
FINISH_SECONDS = 2.0
"""How long a stopping process goes on passing notes on."""


class Notes(ABC):
    """Notes of one kind. An asynchronous context manager, which owns the workers."""

    def __init__(self, kind: str) -> None:
        """`kind` says in logs what the notes tell of."""
        self._kind = kind
        self._waiting: set[int] = set()
        self._queue: asyncio.Queue[int] = asyncio.Queue(WAITING)
        self._workers: list[asyncio.Task[None]] = []

    @abstractmethod
    async def pass_on(self, viewer_id: int) -> None:
        """Tell of a viewer; a FeedError where that is not possible now."""

    @abstractmethod
    def forget(self, viewer_id: int) -> None:
        """Let a later read make the note of a viewer again, because it was not passed on."""

    def leave(self, viewer_id: int) -> bool:
        """Leave a note, unless one of this viewer waits already; False where too many wait. Neither waits nor fails."""
        if viewer_id in self._waiting:
            return True
        if self._queue.full():
            return False
        self._waiting.add(viewer_id)
        self._queue.put_nowait(viewer_id)
        return True

    async def __aenter__(self) -> Self:
        self._workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await self._queue.join()
        except TimeoutError:
            logger.warning("%s: stopped before all were passed on", self._kind, extra={"waiting": self._queue.qsize()})
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            viewer_id = await self._queue.get()
            self._waiting.discard(viewer_id)
            try:
                await self.pass_on(viewer_id)
            except FeedError as error:
                self.forget(viewer_id)
                logger.warning("%s: not passed on: %s", self._kind, error.message, extra={"viewer_id": viewer_id})
            except Exception:
                logger.exception("%s: not passed on", self._kind, extra={"viewer_id": viewer_id})
            finally:
                self._queue.task_done()
