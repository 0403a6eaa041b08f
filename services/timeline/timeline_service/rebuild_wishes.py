"""Wishes for timelines to be rebuilt, told to `fanout` behind the reads that found them missing or short."""

from collections.abc import Awaitable, Callable

from timeline_service.notes import Notes


class RebuildWishes(Notes):
    """Wishes for each viewer's timeline, not again before a pause is over."""

    def __init__(
        self, rebuild: Callable[[int], Awaitable[None]], clock: Callable[[], float], *, pause_seconds: float
    ) -> None:
        """`rebuild` asks for one viewer's timeline; `clock` gives seconds."""
        super().__init__("wish for a rebuild")
        self._rebuild = rebuild
        self._clock = clock
        self._pause_seconds = pause_seconds
        # When each viewer's timeline was wished for, the longest ago first.
        self._wished: dict[int, float] = {}

    def wish(self, viewer_id: int) -> None:
        """Wish for a viewer's timeline. Neither waits nor fails."""
        now = self._clock()
        while self._wished and now - self._wished[oldest := next(iter(self._wished))] >= self._pause_seconds:
            del self._wished[oldest]
        if viewer_id not in self._wished and self.leave(viewer_id):
            self._wished[viewer_id] = now

    async def pass_on(self, viewer_id: int) -> None:
        """See `Notes`."""
        await self._rebuild(viewer_id)

    def forget(self, viewer_id: int) -> None:
        """See `Notes`."""
        self._wished.pop(viewer_id, None)
