"""Leases of worker numbers, so that no two processes ever make the same id.

A lease is a row of a table in the database, and what keeps ids apart is its *ceiling*: a holder makes only ids whose
millisecond is below the ceiling that it has reserved there, and whoever takes a number over begins at the ceiling that
the last holder left. That holds whatever the clocks say and whichever answers are lost. On top of it a holder stops when
its lease has run out by its own monotonic clock, counted from before it asked, and a number is only taken when its lease
has run out by the database's clock and its ceiling lies in the past.

The ceiling is also what a forward step of the clock runs into: it is at most one lease ahead of the database's clock.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol
from uuid import UUID, uuid4

from feedkit.errors import FeedError, Unavailable

from post_service.background import in_background
from post_service.snowflake import Early, Snowflakes

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""The pause after an attempt that gave no lease."""


class Reading(NamedTuple):
    """What the clocks of this process say: Unix milliseconds, which may step, and seconds that only go forward."""

    wall_ms: int
    monotonic: float


def read_clocks() -> Reading:
    """The clocks of this machine."""
    return Reading(time.time_ns() // 1_000_000, time.monotonic())


class Claim(NamedTuple):
    """A wish for a lease."""

    holder: UUID
    """Who asks: new for every lease, so that a late answer or request of an earlier one touches nothing."""
    worker: int | None
    """The number whose lease is to be prolonged; None for any that is free."""
    now_ms: int
    lease_ms: int
    max_skew_ms: int


class Grant(NamedTuple):
    """A lease as it stands in the table. All times are Unix milliseconds."""

    worker: int
    floor_ms: int
    """The ceiling that the number had before."""
    ceiling_ms: int
    """Ids are reserved below this millisecond."""
    table_ms: int
    """The database's clock when it granted this."""


class Terms(NamedTuple):
    """The limits of leases, in milliseconds; see the settings of the same names."""

    lease_ms: int
    max_skew_ms: int
    max_backward_ms: int


class WorkerLease:
    """What a process knows of its lease, and the ids that it may make with it. Talks to nobody."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._ids: Snowflakes | None = None
        self._holder = uuid4()
        self._ceiling_ms = 0
        self._valid_until = 0.0
        self._ahead_ms = 0
        self._why_none = "it has not got one yet"

    @property
    def worker(self) -> int | None:
        """The number that is held, be its lease valid at the moment or not."""
        return self._ids.worker if self._ids else None

    def claim(self, now: Reading) -> Claim:
        """What to ask the table for."""
        holder, worker = (self._holder, self._ids.worker) if self._ids else (uuid4(), None)
        return Claim(holder, worker, now.wall_ms, self._terms.lease_ms, self._terms.max_skew_ms)

    def granted(self, claim: Claim, grant: Grant, sent: Reading, received: Reading) -> None:
        """The table granted `claim`, which was read off the clocks at `sent`; its answer came at `received`."""
        if self._ids is None or self._holder != claim.holder:
            self._ids, self._holder = Snowflakes(grant.worker, grant.floor_ms), claim.holder
        self._ceiling_ms = grant.ceiling_ms
        self._valid_until = sent.monotonic + self._terms.lease_ms / 1000
        self._ahead_ms = _ahead(grant.table_ms, sent.wall_ms, received.wall_ms)
        # A time that is wrong must not be held against the clock once it has been put right.
        if abs(self._ahead_ms) <= self._terms.max_skew_ms:
            self._ids.observe(sent.wall_ms)

    def refused(self, claim: Claim) -> None:
        """The table did not grant `claim`: another holder took the number over, or none is free."""
        self._ids = None
        if claim.worker is None:
            self._why_none = "no worker number is free"
        else:
            self._why_none = f"another process took over worker number {claim.worker}"

    def give_up(self) -> tuple[Claim, int] | None:
        """End the lease. Returns what to release in the table and the first millisecond left unused, if one was held."""
        if self._ids is None:
            return None
        claim = Claim(self._holder, self._ids.worker, 0, self._terms.lease_ms, self._terms.max_skew_ms)
        unused_ms = self._ids.unused_ms
        self._ids, self._why_none = None, "the process is stopping"
        return claim, unused_ms

    def problem(self, now: Reading) -> str | None:
        """Why no id can be made now, apart from a moment's wait; None if one can."""
        if self._ids is None:
            return f"holds no worker number: {self._why_none}"
        if now.monotonic >= self._valid_until:
            return f"the lease of worker number {self._ids.worker} has run out"
        if abs(self._ahead_ms) > self._terms.max_skew_ms:
            side = "ahead of" if self._ahead_ms > 0 else "behind"
            return f"the clock is {abs(self._ahead_ms)} ms {side} the database's"
        behind_ms = self._ids.reached_ms - now.wall_ms
        if behind_ms > self._terms.max_backward_ms:
            return f"the clock stepped back and has to catch up by {behind_ms} ms"
        if now.wall_ms >= self._ceiling_ms:
            return "the clock has passed the time for which ids are reserved"
        return None

    def take(self, now: Reading) -> int:
        """The next id. Raises Unavailable (IDS_UNAVAILABLE), or Early where a moment's wait is all that is needed."""
        problem = self.problem(now)
        if self._ids is None or problem is not None:
            raise Unavailable("IDS_UNAVAILABLE", f"this process makes no ids: {problem}")
        return self._ids.take(now.wall_ms)


def _ahead(table_ms: int, sent_ms: int, received_ms: int) -> int:
    """How far, at least, a clock that showed `sent_ms` before and `received_ms` after is ahead of one at `table_ms`.

    Negative if it is behind; 0 as long as a slow answer alone may explain the difference.
    """
    earliest, latest = sorted((sent_ms, received_ms))
    if earliest > table_ms:
        return earliest - table_ms
    return min(latest - table_ms, 0)


class WorkerTable(Protocol):
    """Where the leases are kept. Its calls raise FeedError where it cannot be reached."""

    async def claim(self, claim: Claim) -> Grant | None:
        """Grant a lease or prolong one; None if that cannot be."""
        ...

    async def release(self, claim: Claim, unused_ms: int) -> None:
        """End a lease; the number's ceiling becomes the first millisecond that was not used."""
        ...


class Ids:
    """Ids for posts, while a lease is held."""

    def __init__(self, table: WorkerTable, terms: Terms, read_clocks: Callable[[], Reading] = read_clocks) -> None:
        self._table = table
        self._lease = WorkerLease(terms)
        self._read_clocks = read_clocks
        self._renew_seconds = terms.lease_ms / 3000
        self._reported: str | None = ""

    async def next_id(self) -> int:
        """The next id, which nobody has or will have. Raises Unavailable (IDS_UNAVAILABLE)."""
        while True:
            try:
                return self._lease.take(self._read_clocks())
            except Early as early:
                await asyncio.sleep(early.wait_ms / 1000)

    async def check(self) -> None:
        """Raise Unavailable where no id can be made."""
        problem = self._lease.problem(self._read_clocks())
        if problem is not None:
            raise Unavailable("IDS_UNAVAILABLE", problem)

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None]:
        """Get a lease as soon as possible and keep it within the block; release it at the end."""
        try:
            async with in_background(self._keep()):
                yield
        finally:
            await self._release()

    async def _keep(self) -> None:
        while True:
            renewed = await self.renew()
            await asyncio.sleep(self._renew_seconds if renewed else RETRY_SECONDS)

    async def renew(self) -> bool:
        """Try once to get a lease or to prolong the one that is held. Never raises; failures are logged."""
        sent = self._read_clocks()
        claim = self._lease.claim(sent)
        try:
            grant = await self._table.claim(claim)
        except Exception as error:
            self._report(f"no answer from the table of worker numbers: {error}", error)
            return False
        if grant is None:
            self._lease.refused(claim)
        else:
            self._lease.granted(claim, grant, sent, self._read_clocks())
        self._report(self._lease.problem(self._read_clocks()))
        return grant is not None

    def _report(self, problem: str | None, error: Exception | None = None) -> None:
        # Once per change: an outage is tried again every second.
        if problem == self._reported:
            return
        self._reported = problem
        if problem is None:
            logger.info("makes ids as worker %s", self._lease.worker)
        else:
            unforeseen = None if isinstance(error, FeedError) else error
            logger.warning("makes no ids, or soon will not: %s", problem, exc_info=unforeseen)

    async def _release(self) -> None:
        held = self._lease.give_up()
        if held is None:
            return
        try:
            await self._table.release(*held)
        except FeedError as error:
            logger.warning("the lease of a worker number was not released and will run out: %s", error)
