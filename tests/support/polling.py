"""Waiting for what has to come, without a guess how long it takes."""

import asyncio
import time
from collections.abc import Awaitable, Callable

SECONDS = 30.0


async def until(holds: Callable[[], Awaitable[bool]], what: str, seconds: float = SECONDS) -> None:
    """Return when the condition holds. AssertionError with `what` has not come when it does not after so long."""
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, f"not after {seconds:g} s: {what}"
        await asyncio.sleep(0.02)
