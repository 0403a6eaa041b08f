"""Blocking: the two follow one another no longer, and neither sees what the other writes."""

from collections.abc import Callable
from typing import Protocol

from graph_service.caches import Caches
from graph_service.pairs import Pair, Rule, is_new, require_both

FIELD = "blocked_id"


class BlockStore(Protocol):
    """Where blocks are kept. Each call is all or nothing; what it is given may be asked more than once."""

    async def block(self, actor_id: int, blocked_id: int, judge: Callable[[Pair], bool]) -> bool:
        """Make a block, and end the follows between the two, if `judge` says so; what it said. What it raises is raised."""
        ...

    async def unblock(self, actor_id: int, blocked_id: int, check: Callable[[Pair], None]) -> bool:
        """End a block if it stands; whether it did. What `check` raises is raised."""
        ...


class Blocks:
    """Blocks and unblocks. Nobody blocks more than `limit` users.

    As with follows, whatever succeeds has made caches forget, also where nothing changed.
    """

    def __init__(self, store: BlockStore, caches: Caches, limit: int) -> None:
        self._store = store
        self._caches = caches
        self._rule = Rule(FIELD, "blocks", "CANNOT_BLOCK_SELF", "BLOCKING_LIMIT_REACHED", limit)

    async def block(self, actor_id: int, blocked_id: int) -> bool:
        """Make the actor block a user; whether that is new. Raises NotFound and FailedPrecondition."""
        new = await self._store.block(actor_id, blocked_id, lambda pair: is_new(pair, actor_id, blocked_id, self._rule))
        both = (actor_id, blocked_id)
        await self._caches.forget(contexts=both, hidden=both)
        return new

    async def unblock(self, actor_id: int, blocked_id: int) -> bool:
        """End a block; whether there was one. Raises NotFound."""
        ended = await self._store.unblock(
            actor_id, blocked_id, lambda pair: require_both(pair.existing, actor_id, blocked_id, FIELD)
        )
        await self._caches.forget(hidden=(actor_id, blocked_id))
        return ended
