"""Waiting for what happens behind a test's back."""

import asyncio
from collections.abc import Callable

SECONDS = 5.0
_PAUSE_SECONDS = 0.001


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail where it takes too long."""
    for _ in range(int(SECONDS / _PAUSE_SECONDS)):
        if condition():
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    raise AssertionError(f"not within {SECONDS} s")
