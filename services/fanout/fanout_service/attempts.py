"""Work that starts again when something else came in between."""

import asyncio
from collections.abc import Awaitable, Callable

from feedkit.errors import DeadlineExceeded, Overloaded, Unavailable

NOT_NOW = (Unavailable, Overloaded, DeadlineExceeded)
"""How a dependency says that it is worth another try later."""

PAUSES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
"""Seconds after each attempt that was in vain."""

Sleep = Callable[[float], Awaitable[None]]


async def until_undisturbed(attempt: Callable[[], Awaitable[bool]], sleep: Sleep = asyncio.sleep) -> None:
    """Attempt it until it says that nothing came in between.

    Raises Unavailable when that happens again and again: it is worth a try later.
    """
    for pause in PAUSES:
        if await attempt():
            return
        await sleep(pause)
    raise Unavailable.of_dependency("redis", "a timeline was rewritten by somebody else in every attempt to rewrite it")
