"""The deadline of the request being served, which every call that it makes inherits, shortened."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from feedkit.errors import DeadlineExceeded

HOP_MARGIN_SECONDS = 0.05
"""What a hop keeps for itself, so that it can still answer when a call that it made ran out of time; no more than half of
a very short rest."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


def begin(seconds: float) -> None:
    """Set the deadline of a request that is served in a task of its own, `seconds` from now."""
    _deadline.set(asyncio.get_running_loop().time() + seconds)


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Set the deadline, `seconds` from now, for everything in the block. It never extends one that is set."""
    ends = asyncio.get_running_loop().time() + seconds
    outer = _deadline.get()
    token = _deadline.set(ends if outer is None else min(ends, outer))
    try:
        yield
    finally:
        _deadline.reset(token)


def timeout_for_call(longest: float) -> float:
    """The timeout in seconds for a call to the next hop: what is left, less the hop's margin, and no more than `longest`.

    Raises DeadlineExceeded where nothing is left.
    """
    ends = _deadline.get()
    if ends is None:
        return longest
    left = ends - asyncio.get_running_loop().time()
    if left <= 0:
        raise DeadlineExceeded
    return min(max(left - HOP_MARGIN_SECONDS, left / 2), longest)
