"""Muting: the actor's feeds are without the posts of the other one; everything else stays."""

from collections.abc import Callable
from typing import Protocol

from graph_service.caches import Caches
from graph_service.pairs import Pair, Rule, is_new, require_both

FIELD = "muted_id"


class MuteStore(Protocol):
    """Where mutes are kept. Each call is all or nothing; what it is given may be asked more than once."""

    async def mute(self, actor_id: int, muted_id: int, judge: Callable[[Pair], bool]) -> bool:
        """Make a mute if `judge` says so; what it said. What it raises is raised."""
        ...

    async def unmute(self, actor_id: int, muted_id: int, check: Callable[[Pair], None]) -> bool:
        """End a mute if it stands; whether it did. What `check` raises is raised."""
        ...


class Mutes:
    """Mutes and unmutes. Nobody mutes more than `limit` users.

    As with follows, whatever succeeds has made caches forget, also where nothing changed.
    """

    def __init__(self, store: MuteStore, caches: Caches, limit: int) -> None:
        self._store = store
        self._caches = caches
        self._rule = Rule(FIELD, "mutes", "CANNOT_MUTE_SELF", "MUTING_LIMIT_REACHED", limit)

    async def mute(self, actor_id: int, muted_id: int) -> bool:
        """Make the actor mute a user; whether that is new. Raises NotFound and FailedPrecondition."""
        new = await self._store.mute(actor_id, muted_id, lambda pair: is_new(pair, actor_id, muted_id, self._rule))
        await self._caches.forget(contexts=[actor_id], hidden=[actor_id])
        return new

    async def unmute(self, actor_id: int, muted_id: int) -> bool:
        """End a mute; whether there was one. Raises NotFound."""
        ended = await self._store.unmute(
            actor_id, muted_id, lambda pair: require_both(pair.existing, actor_id, muted_id, FIELD)
        )
        await self._caches.forget(contexts=[actor_id], hidden=[actor_id])
        return ended
