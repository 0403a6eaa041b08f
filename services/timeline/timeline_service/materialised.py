"""The materialised source: a viewer's home timeline as `fanout` keeps it, and below its horizon the pull."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from timeline_service.source import BEGINNING, NOT_NOW, Source, Stretch


class PackedEntries(Protocol):
    """Entries, oldest first, of which only those are unpacked that somebody looks at."""

    @property
    def length(self) -> int:
        """How many there are."""
        ...

    def columns(self, start: int, stop: int) -> tuple[Sequence[int], Sequence[int]]:
        """Post ids and author ids of the entries from place `start` up to but without `stop`; 0 is the oldest."""
        ...

    def place(self, post_id: int) -> int:
        """How many entries are below a post id."""
        ...


class Materialised(NamedTuple):
    """A home timeline as it was read: the posts of followees which are pushed."""

    entries: PackedEntries
    horizon: int
    """Every post above it that belongs into the timeline is in it; 0: all are. What is at or below is to be ignored."""
    whole: bool
    """Whether these are all its entries; if not, they are the newest."""


class MaterialisedSource:
    """Pushed posts, and everything that the viewer's authors wrote at and below the horizon. See `source.Source`.

    The horizon is that of the timeline as it was read at first. Should it sink before the rest is read, what lies between
    is pulled nevertheless: other sources leave off at the first one.
    """

    def __init__(
        self,
        timeline: Materialised,
        read_whole: Callable[[], Awaitable[Materialised | None]],
        below: Source,
        found_short: Callable[[], None],
    ) -> None:
        """`read_whole` reads all of the timeline, None where it is gone, and raises one of source.NOT_NOW.

        `below` has everything that all authors wrote. `found_short` is called when more was wanted than there is above
        the horizon of a timeline that is short, or gone.
        """
        self._floor = timeline.horizon
        self._read_whole = read_whole
        self._below = below
        self.pushed_to = BEGINNING
        """Whatever was read at or above this id came from the timeline, and nothing below it."""
        self._found_short = found_short
        self._hold(timeline)
        # What was glanced at is more than a page takes, as a rule. So a timeline is short whose glance shows all of it,
        # and not one that is read on because much of it is withheld.
        self._short = self._whole

    def peek(self, position: int, limit: int) -> Stretch | None:
        """See `source.Source`."""
        if position <= self._line:
            return None
        stop = self._entries.place(position)
        start = max(stop - limit, self._first)
        post_ids, author_ids = self._entries.columns(start, stop)
        return Stretch(post_ids[::-1], author_ids[::-1], post_ids[0] if start > self._first else self._line)

    async def read(self, position: int, limit: int) -> Stretch:
        """See `source.Source`."""
        if not self._whole:
            try:
                timeline = await self._read_whole()
            except NOT_NOW:
                return await self._read_below(position, limit)
            self._short = timeline is None
            if timeline is not None:
                self._hold(timeline)
                if (stretch := self.peek(position, limit)) is not None:
                    return stretch
        if self._short:
            self._found_short()
        return await self._read_below(position, limit)

    def leave_out(self, author_id: int) -> None:
        """See `source.Source`; of the timeline itself everything is at hand, or read at once."""
        self._below.leave_out(author_id)

    async def _read_below(self, position: int, limit: int) -> Stretch:
        # From here on everything is pulled, whatever the timeline may still have.
        self._whole, self._line = True, position
        return await self._below.read(position, limit)

    def _hold(self, timeline: Materialised) -> None:
        horizon = max(timeline.horizon, self._floor)
        self._entries = timeline.entries
        # The first place above the horizon.
        self._first = timeline.entries.place(horizon + 1) if horizon else 0
        # Whether there is nothing more above the horizon, and down to where what there is is complete.
        self._whole = timeline.whole or self._first > 0
        if self._whole:
            self._line = horizon + 1 if horizon else BEGINNING
        else:
            (self._line,), _ = timeline.entries.columns(0, 1)
        self.pushed_to = self._line
