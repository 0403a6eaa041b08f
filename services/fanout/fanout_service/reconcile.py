"""Makes one author's part of a home timeline equal to the truth: after a follow, a mute, the end of either, or a doubt."""

import asyncio
from typing import Protocol

from fanout_service.attempts import Sleep, until_undisturbed
from fanout_service.timelines import Posts, Recent, Timelines, share_of


class Edges(Protocol):
    """The truth about who follows and who mutes whom."""

    async def belongs(self, viewer_id: int, author_id: int) -> bool:
        """Whether the viewer follows the author now, and does not mute them. One who does not exist follows nobody."""
        ...


class Reconcile:
    """Reads the timeline's epoch first and the truth after it: what changes meanwhile changes the epoch, or is pushed."""

    def __init__(
        self, timelines: Timelines, edges: Edges, posts: Posts, length: int, sleep: Sleep = asyncio.sleep
    ) -> None:
        """`length` is the most entries of a timeline."""
        self._timelines = timelines
        self._edges = edges
        self._posts = posts
        self._length = length
        self._sleep = sleep

    async def __call__(self, viewer_id: int, author_id: int) -> None:
        """Do it. A timeline that does not exist has no parts to mend. Pulled authors are treated like all others."""
        await until_undisturbed(lambda: self._attempt(viewer_id, author_id), self._sleep)

    async def _attempt(self, viewer_id: int, author_id: int) -> bool:
        state = await self._timelines.state(viewer_id)
        if state is None:
            return True
        if not await self._edges.belongs(viewer_id, author_id):
            return await self._timelines.remove_author(viewer_id, state.epoch, author_id)
        recent = await self._posts.recent([author_id], self._length + 1)
        entries, left_out = share_of(_above(recent, state.horizon), self._length)
        return await self._timelines.add_author(viewer_id, state.epoch, author_id, entries, left_out)


def _above(recent: Recent, horizon: int) -> Recent:
    """What lies above a horizon. Nobody asks whether there is more below."""
    entries = [entry for entry in recent.entries if entry.post_id > horizon]
    return Recent(entries, recent.complete_to if recent.complete_to > horizon else 0)
