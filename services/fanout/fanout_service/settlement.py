"""Whether everything that was acknowledged has reached every timeline."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class Work(Enum):
    """What there is to consume."""

    POST_EVENTS = "posts"
    GRAPH_EVENTS = "graph"
    CHUNKS = "chunks"
    WISHES = "reconcile"
    ENGAGEMENT_EVENTS = "engagement"
    """They change no timeline, so it has settled without them."""


class Outbox(Protocol):
    """Events of another service that wait for the broker."""

    async def rows(self) -> int:
        """How many wait."""
        ...


class Lag(Protocol):
    """How far consumers are behind, as the broker knows it."""

    async def of(self, *work: Work) -> int:
        """How many records of these kinds no consumer has handled."""
        ...

    async def handled(self, work: Work) -> int:
        """How many records of a kind have been handled, ever; those that have expired count."""
        ...

    async def written(self, work: Work) -> int:
        """How many records of a kind there have been, ever, handled or not."""
        ...


class Announcements(Protocol):
    """What every `timeline` has to hear of."""

    async def unseen_ms(self) -> int:
        """How long it takes at most until all have heard of the latest one, in milliseconds."""
        ...


class Progress(NamedTuple):
    """What there is still to do."""

    outbox_rows: int
    lag_events: int
    open_chunks: int
    open_reconciles: int
    unseen_pulled_ms: int

    @property
    def is_settled(self) -> bool:
        """Whether that is nothing."""
        return not any(self)


class Settlement:
    """Reads in the order in which work flows: what has left one place is seen in the next, or is done.

    Wishes close a circle, because an erasure goes on by further wishes and by events of what it has erased. So none may
    have been fulfilled while the other places were looked at.
    """

    def __init__(self, outboxes: Sequence[Outbox], lag: Lag, announcements: Announcements) -> None:
        self._outboxes = outboxes
        self._lag = lag
        self._announcements = announcements

    async def progress(self) -> Progress:
        """What there is still to do of all that was acknowledged before this call."""
        fulfilled = await self._lag.handled(Work.WISHES)
        outbox_rows = sum(await asyncio.gather(*(outbox.rows() for outbox in self._outboxes)))
        return Progress(
            outbox_rows,
            await self._lag.of(Work.POST_EVENTS, Work.GRAPH_EVENTS),
            await self._lag.of(Work.CHUNKS),
            await self._lag.written(Work.WISHES) - fulfilled,
            await self._announcements.unseen_ms(),
        )
