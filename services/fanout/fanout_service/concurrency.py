"""Several pieces of work at the same time, but not all."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def all_of(work: Iterable[Coroutine[Any, Any, None]], at_once: int) -> None:
    """Do all of it, so many pieces at the same time. The first error ends what is under way, and is raised."""
    places = asyncio.Semaphore(at_once)

    async def placed(piece: Coroutine[Any, Any, None]) -> None:
        async with places:
            await piece

    pieces = list(work)
    try:
        async with asyncio.TaskGroup() as group:
            for piece in pieces:
                group.create_task(placed(piece))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        for piece in pieces:
            # Those that had no place yet when another failed were never begun.
            piece.close()
