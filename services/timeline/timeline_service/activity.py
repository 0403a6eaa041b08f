"""Viewers' activity, told to `graph` behind the reads that show it; their timelines then live on."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from timeline_service.notes import Notes
from timeline_service.source import NOT_NOW

SECONDS_A_DAY = 86_400


class Activity(Notes):
    """Tells of each viewer at most once a day (UTC)."""

    def __init__(
        self,
        record: Callable[[int], Awaitable[None]],
        keep_timeline: Callable[[int], Awaitable[None]],
        clock: Callable[[], float],
        *,
        remembered: int,
    ) -> None:
        """`record` tells of one viewer, whose timeline `keep_timeline` then lets live on.

        `clock` gives Unix seconds; `remembered` bounds the viewers kept in mind. A viewer who is forgotten for others is
        told of again, which `graph` takes without writing.
        """
        super().__init__("activity")
        self._record = record
        self._keep_timeline = keep_timeline
        self._clock = clock
        self._remembered = remembered
        self._day = 0
        self._seen: dict[int, None] = {}

    def seen(self, viewer_id: int) -> None:
        """Note that a viewer is active now. Neither waits nor fails."""
        day = int(self._clock() // SECONDS_A_DAY)
        if day != self._day:
            self._day = day
            self._seen.clear()
        if viewer_id in self._seen or not self.leave(viewer_id):
            return
        if len(self._seen) >= self._remembered:
            del self._seen[next(iter(self._seen))]
        self._seen[viewer_id] = None

    async def pass_on(self, viewer_id: int) -> None:
        """See `Notes`."""
        # In this order: a timeline lives only as long as its viewer counts as active, and is pushed to.
        await self._record(viewer_id)
        # A day missed makes its life that much shorter, and is made up for on the next.
        with suppress(*NOT_NOW):
            await self._keep_timeline(viewer_id)

    def forget(self, viewer_id: int) -> None:
        """See `Notes`."""
        self._seen.pop(viewer_id, None)
