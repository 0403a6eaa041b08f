"""Erasing what is left of deleted users, a slice at a time, so that it can stop anywhere and go on."""

from typing import NamedTuple, Protocol

from feedkit.errors import FailedPrecondition

SLICE = 100
"""How many edges, and choices of a view, one call erases at most. Each follow that ends has a timeline mended; what others
wish for comes in between."""


class Erased(NamedTuple):
    """What one call erased."""

    edges: int
    """Follows, blocks and mutes."""
    done: bool
    """Whether nothing is left."""


class ErasureStore(Protocol):
    """Where what is left of users is kept. Each call is all or nothing, and may be made many times, also at once."""

    async def is_deleted(self, user_id: int) -> bool:
        """Whether a user is deleted; once it is so, it stays so."""
        ...

    async def end_follows_of(self, user_id: int, limit: int) -> int:
        """End at most `limit` follows by a deleted user, with counts and events; how many it ended."""
        ...

    async def end_follows_to(self, user_id: int, limit: int) -> int:
        """End at most `limit` follows of a deleted user by others, likewise; fewer where somebody else just ended some."""
        ...

    async def delete_blocks(self, user_id: int, limit: int) -> int:
        """Delete at most `limit` blocks by or of a user; how many it deleted."""
        ...

    async def delete_mutes(self, user_id: int, limit: int) -> int:
        """Delete at most `limit` mutes by or of a user; how many it deleted."""
        ...

    async def delete_view_choices(self, user_id: int, limit: int) -> int:
        """Delete at most `limit` of a user's choices of a view; how many it deleted."""
        ...

    async def delete_remains(self, user_id: int) -> None:
        """Delete activity, the chosen view and counts of nobody, and take the user out of the index of pulled authors."""
        ...

    async def is_erased(self, user_id: int) -> bool:
        """Whether nothing is left of a user but the tombstone."""
        ...


class Erasure:
    """Erases deleted users.

    What is left is what there is: nothing else tells how far it has come. A follow that was on its way when the user was
    deleted may come to stand behind it; its event has the user erased once more.
    """

    def __init__(self, store: ErasureStore, slice_size: int = SLICE) -> None:
        self._store = store
        self._slice = slice_size

    async def erase(self, user_id: int) -> Erased:
        """Erase a further slice of a deleted user. Raises FailedPrecondition.

        Caches are left to the events of the follows that end: meanwhile everybody finds that the user is deleted.
        """
        if not await self._store.is_deleted(user_id):
            raise FailedPrecondition("USER_NOT_DELETED", f"user_id: {user_id} is not deleted", user_id=user_id)
        edges = 0
        for erase in (
            self._store.end_follows_of,
            self._store.end_follows_to,
            self._store.delete_blocks,
            self._store.delete_mutes,
        ):
            edges += await erase(user_id, self._slice - edges)
            if edges >= self._slice:
                return Erased(edges, done=False)
        room = self._slice - edges
        if await self._store.delete_view_choices(user_id, room) >= room:
            return Erased(edges, done=False)
        await self._store.delete_remains(user_id)
        return Erased(edges, done=await self._store.is_erased(user_id))
