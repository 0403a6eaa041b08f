"""Makes a whole home timeline anew: for a viewer who has none, or whose timeline does not reach down far enough."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from feedkit.errors import NotFound

from fanout_service.attempts import Sleep, until_undisturbed
from fanout_service.timelines import Posts, Recent, Timelines, share_of


class Viewers(Protocol):
    """The truth about viewers."""

    async def record_activity(self, viewer_id: int) -> None:
        """Let the viewer be active now, so that they are pushed to. Raises NotFound for nobody's id."""
        ...

    async def followees(self, viewer_id: int) -> Sequence[int]:
        """Whom the viewer follows now. Raises NotFound for nobody's id."""
        ...


class Rebuild:
    """The viewer is active and the timeline there, both before the truth is read, so that whatever is written after the
    reading is pushed."""

    def __init__(
        self, timelines: Timelines, viewers: Viewers, posts: Posts, length: int, sleep: Sleep = asyncio.sleep
    ) -> None:
        """`length` is the most entries of a timeline."""
        self._timelines = timelines
        self._viewers = viewers
        self._posts = posts
        self._length = length
        self._sleep = sleep

    async def __call__(self, viewer_id: int) -> None:
        """Do it. Raises NotFound for nobody's id."""
        await until_undisturbed(lambda: self._attempt(viewer_id), self._sleep)

    async def _attempt(self, viewer_id: int) -> bool:
        await self._viewers.record_activity(viewer_id)
        await self._timelines.begin_anew(viewer_id)
        state = await self._timelines.state(viewer_id)
        if state is None:
            return False
        try:
            followee_ids = await self._viewers.followees(viewer_id)
        except NotFound:
            # Deleted meanwhile. Whoever deleted the timeline then may have come before it was begun.
            await self._timelines.remove(viewer_id)
            raise
        recent = await self._newest(followee_ids)
        entries, left_out = share_of(recent, self._length)
        return await self._timelines.rebuild(viewer_id, state.epoch, entries, left_out)

    async def _newest(self, followee_ids: Sequence[int]) -> Recent:
        if not followee_ids:
            return Recent((), 0)
        return await self._posts.recent(followee_ids, self._length + 1)
