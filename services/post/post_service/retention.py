"""Removing what is kept for a time only, in bounded steps beside requests."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from feedkit.errors import FeedError

logger = logging.getLogger(__name__)

PURGE_BATCH = 1000
"""How many rows one statement removes, so that none holds its locks for long."""


async def purge(what: str, remove: Callable[[int], Awaitable[int]], every_seconds: float) -> None:
    """Remove for ever what is over: `remove` takes at most so much away and returns how much there was.

    A failure is logged with the name of what was to be removed, and tried again at the next turn; what is over does no
    harm, it only takes up room.
    """
    while True:
        await asyncio.sleep(every_seconds)
        try:
            while await remove(PURGE_BATCH) == PURGE_BATCH:
                continue
        except FeedError as error:
            logger.warning("%s were not removed: %s", what, error)
        except Exception:
            logger.exception("%s were not removed", what)
