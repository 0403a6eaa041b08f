"""Chores that a process does beside everything else, again and again, until it ends."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from fanout_service.attempts import NOT_NOW

logger = logging.getLogger(__name__)


class Chore(NamedTuple):
    """Something to be done again and again."""

    name: str
    do: Callable[[], Awaitable[None]]
    """Raises one of NOT_NOW where it is worth a try later."""
    seconds: float
    """How long to wait after each time."""
    longest_seconds: float
    """As long grows the wait, twofold at a time, while it fails."""


@asynccontextmanager
async def doing(chores: Sequence[Chore]) -> AsyncGenerator[None]:
    """Do them within the block. What fails is logged, and tried again."""
    tasks = [asyncio.create_task(_do_always(chore), name=chore.name) for chore in chores]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _do_always(chore: Chore) -> None:
    pause = chore.seconds
    failing = False
    while True:
        try:
            await chore.do()
        except NOT_NOW as error:
            # Said once, not at every attempt.
            logger.log(logging.DEBUG if failing else logging.WARNING, "%s has to wait: %s", chore.name, error)
            failing = True
        except Exception:
            logger.exception("%s failed", chore.name)
            failing = True
        else:
            if failing:
                logger.info("%s goes on", chore.name)
            failing = False
        pause = min(2 * pause, chore.longest_seconds) if failing else chore.seconds
        await asyncio.sleep(pause * random.uniform(0.9, 1.1))  # noqa: S311
