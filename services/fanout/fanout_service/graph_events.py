"""What follows from changes between users: what is cached of them is read anew, and the viewer's timeline mended."""

from collections.abc import Collection, Sequence
from typing import Protocol

from fanout_service.authors import Authors
from fanout_service.events import EdgeChange, EraseWish, GraphEvent, Wish
from fanout_service.wishes import Wishes

MADE = {EdgeChange.FOLLOWED, EdgeChange.MUTED}
"""Changes that leave something behind which leads to the author."""
MUTES = {EdgeChange.MUTED, EdgeChange.UNMUTED}
BLOCKS = {EdgeChange.BLOCKED, EdgeChange.UNBLOCKED}
"""Changes that matter to both users, and to no timeline: the follows that a block ended have events of their own."""
FAVOURS = {EdgeChange.FAVOURED, EdgeChange.UNFAVOURED}
"""Changes that matter to the viewer's context alone: no timeline is made of other posts by them."""


class CachedEdges(Protocol):
    """Copies of the truth about what users did about one another."""

    async def edges_changed(self, contexts: Collection[int], hidden: Collection[int]) -> Collection[int]:
        """Forget the contexts of some viewers, and whose posts are withheld from some; one round trip.

        Returns those of the first who have a timeline.
        """
        ...


class GraphEvents:
    """Handles what happened between users; see `post_events.PostEvents`."""

    def __init__(self, cached: CachedEdges, authors: Authors, wishes: Wishes) -> None:
        self._cached = cached
        self._authors = authors
        self._wishes = wishes

    async def handle(self, events: Sequence[GraphEvent]) -> None:
        """Return when everything that follows from them cannot be lost any more. Raises the first error."""
        if not events:
            return
        with_timeline = await self._forget(events)
        changes = list(dict.fromkeys(event for event in events if event.change not in BLOCKS | FAVOURS))
        if not changes:
            return
        standings = await self._authors.standings({change.author_id for change in changes})
        # What was made beside the deletion of an account may have escaped the erasure. What is erased tells of it too.
        escaped = {c.author_id for c in changes if c.change in MADE and c.author_id in standings.deleted}
        # The posts of pulled authors come from elsewhere; those of them that were pushed once are ignored by readers, and
        # taken out only where nothing of their author is to be left.
        elsewhere = set(standings.pulled) - set(standings.deleted)
        mended = dict.fromkeys(
            Wish(change.viewer_id, change.author_id)
            for change in changes
            if change.viewer_id in with_timeline and change.author_id not in elsewhere
        )
        if escaped or mended:
            await self._wishes.leave([*mended, *map(EraseWish, sorted(escaped))])

    async def _forget(self, events: Sequence[GraphEvent]) -> Collection[int]:
        """Forget what has changed, and return the viewers who have a timeline."""
        contexts = {event.viewer_id for event in events}
        hidden = {event.viewer_id for event in events if event.change in MUTES}
        both = {user for event in events if event.change in BLOCKS for user in (event.viewer_id, event.author_id)}
        return await self._cached.edges_changed(contexts | both, hidden | both)
