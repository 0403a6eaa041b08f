"""Erases what is left of a deleted user, a part at a time, so that nobody waits behind one who wrote and followed much."""

from typing import Protocol

from fanout_service.account_events import CachedUsers
from fanout_service.events import EraseWish
from fanout_service.wishes import Wishes


class Remains(Protocol):
    """What one owner of truth has left of deleted users. What is erased is what tells how far the erasure has come."""

    async def erase(self, user_id: int) -> bool:
        """Erase a further part; whether nothing is left now. Raises FailedPrecondition where the user is not deleted."""
        ...


class Erase:
    """Erases a part, and leaves the wish again as long as anything is left."""

    def __init__(self, edges: Remains, posts: Remains, cached: CachedUsers, wishes: Wishes) -> None:
        self._edges = edges
        self._posts = posts
        self._cached = cached
        self._wishes = wishes

    async def __call__(self, user_id: int) -> None:
        """Do it. Raises FailedPrecondition, or NotFound, where the user is not deleted."""
        no_edges = await self._edges.erase(user_id)
        no_posts = await self._posts.erase(user_id)
        if not (no_edges and no_posts):
            await self._wishes.leave([EraseWish(user_id)])
            return
        # Whoever read the truth before it was erased may have cached it after the deletion was told of.
        await self._cached.users_deleted([user_id])
