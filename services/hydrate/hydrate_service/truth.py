"""Reads of the truth, shared by all who want the same at the same time, and filled into the cache by lease.

Somebody who wants something joins a read that has not started. They never join one that has: it may have looked before a
change of which they know already, such as a delete that was acknowledged to them.

What is wanted while the leases of others are being taken gathers, and is then read together. So a burst of requests that
miss the cache is a few reads, however many requests it is, and nobody waits for a clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import Context
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from feedkit import errors

NOT_NOW = (errors.Unavailable, errors.Overloaded, errors.DeadlineExceeded)
"""How a neighbour says that it cannot answer now. Any other error is a fault, and is not hidden in an outcome."""

MOST_IDS = 100
"""How many ids a neighbour is asked for at once."""

Value = TypeVar("Value")
Value_contra = TypeVar("Value_contra", contravariant=True)


class Leases(Protocol[Value_contra]):
    """The right to fill what the cache does not know."""

    async def take(self, ids: Collection[int]) -> Mapping[int, bytes]:
        """The tokens of the leases that were free, by id, in one round trip; raises one of NOT_NOW."""
        ...

    async def fill(self, tokens: Mapping[int, bytes], found: Mapping[int, Value_contra]) -> None:
        """Fill in what was found under leases that are still held, in one round trip; raises one of NOT_NOW."""
        ...


class _Read(Generic[Value]):
    """One look at the truth, for all who joined it."""

    def __init__(self) -> None:
        self.ids: set[int] = set()
        self.ended = asyncio.Event()
        self.found: Mapping[int, Value] | None = None
        self.failure: Exception | None = None

    def result(self) -> Mapping[int, Value] | None:
        """What was found, by id; None where that is not known now. Raises the fault for which the read failed."""
        if self.failure is None or isinstance(self.failure, NOT_NOW):
            return self.found
        raise self.failure


class SharedReads(Generic[Value]):
    """Reads by id, no more than `most` ids each. An asynchronous context manager, because fills outlive the answers.

    `read` gives what there is, by id, and raises one of NOT_NOW. It runs in a task of its own, for nobody's request alone.
    `patience` tells how many seconds the request being served can wait, and raises DeadlineExceeded where it cannot.
    """

    def __init__(
        self,
        read: Callable[[Collection[int]], Awaitable[Mapping[int, Value]]],
        leases: Leases[Value],
        patience: Callable[[], float],
        *,
        most: int = MOST_IDS,
    ) -> None:
        self._read = read
        self._leases = leases
        self._most = most
        self._patience = patience
        self._joinable: list[_Read[Value]] = []
        self._gathering: _Read[Value] | None = None
        self._leasing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self, ids: Collection[int]) -> dict[int, Value | None]:
        """What there is of each id; None: nothing. Ids are left out whose truth cannot be had, or not in time."""
        joined = {some_id: self._join(some_id) for some_id in ids}
        try:
            async with asyncio.timeout(self._patience()):
                for read in joined.values():
                    await read.ended.wait()
        except (TimeoutError, errors.DeadlineExceeded):
            pass  # what did not end in time is left out below
        results = {some_id: read.result() for some_id, read in joined.items()}
        return {some_id: found.get(some_id) for some_id, found in results.items() if found is not None}

    def _join(self, some_id: int) -> _Read[Value]:
        for read in self._joinable:
            if some_id in read.ids:
                return read
        read = self._gathering
        if read is None or len(read.ids) >= self._most:
            read = self._gathering = _Read()
            self._joinable.append(read)
            task = asyncio.create_task(self._perform(read))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        read.ids.add(some_id)
        return read

    async def _perform(self, read: _Read[Value]) -> None:
        try:
            tokens = await self._lease(read)
            read.found = await self._read(read.ids)
        except Exception as error:
            read.failure = error
            return
        finally:
            read.ended.set()
        # Behind the answer, which does not need it, and so outside the trace and the deadline of whoever asked first.
        await asyncio.create_task(self._fill(tokens, read.found), context=Context())

    async def _lease(self, read: _Read[Value]) -> Mapping[int, bytes]:
        # One at a time: what is wanted meanwhile gathers.
        async with self._leasing:
            if self._gathering is read:
                self._gathering = None
            try:
                return await self._leases.take(read.ids)
            except NOT_NOW:
                return {}
            finally:
                self._joinable.remove(read)

    async def _fill(self, tokens: Mapping[int, bytes], found: Mapping[int, Value]) -> None:
        if not tokens:
            return
        try:
            await self._leases.fill(tokens, found)
        except NOT_NOW:
            return  # the leases run out, and whoever comes then fills in

    async def __aenter__(self) -> "SharedReads[Value]":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the fills that are under way: each ends by itself within the patience of its cache."""
        await asyncio.gather(*self._tasks)
