"""What follows from changes between users: the viewer's context is read anew, and their timeline mended."""

from collections.abc import Collection, Sequence
from typing import Protocol

from fanout_service.events import FollowEvent, Wish


class Contexts(Protocol):
    """Copies of the truth about whom viewers follow."""

    async def contexts_changed(self, viewer_ids: Collection[int]) -> Collection[int]:
        """Forget them, and return those of the viewers who have a timeline; one round trip."""
        ...


class PulledAuthors(Protocol):
    """The index of the authors whose posts are not pushed."""

    async def pulled_already(self, author_ids: Collection[int]) -> Collection[int]:
        """Those who are in it. Nobody enters by this question: it is their next post that all timelines are told of."""
        ...


class Wishes(Protocol):
    """Where wishes are left for whoever mends timelines."""

    async def leave(self, work: Sequence[Wish]) -> None:
        """Return when they cannot be lost any more. Raises Unavailable where that is not known."""
        ...


class FollowEvents:
    """Handles follow events; see `post_events.PostEvents`."""

    def __init__(self, contexts: Contexts, index: PulledAuthors, wishes: Wishes) -> None:
        self._contexts = contexts
        self._index = index
        self._wishes = wishes

    async def handle(self, events: Sequence[FollowEvent]) -> None:
        """Return when everything that follows from them cannot be lost any more. Raises the first error."""
        changes = dict.fromkeys(events)
        with_timeline = await self._contexts.contexts_changed({change.follower_id for change in changes})
        changes = [change for change in changes if change.follower_id in with_timeline]
        if not changes:
            return
        # The posts of pulled authors come from elsewhere; those of them that were pushed once are ignored by readers.
        pulled = await self._index.pulled_already({change.followee_id for change in changes})
        wishes = [Wish(*change) for change in changes if change.followee_id not in pulled]
        if wishes:
            await self._wishes.leave(wishes)
