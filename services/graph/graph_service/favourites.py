"""Favourites: those of whom one follows whose posts one would rather not miss."""

from collections.abc import Callable, Set
from typing import NamedTuple, Protocol

from feedkit.errors import FailedPrecondition

from graph_service.caches import Caches
from graph_service.pairs import require_both

FIELD = "favourite_id"


class Situation(NamedTuple):
    """How an actor stands to one other user. What the actor does about anybody cannot change while that is judged."""

    existing: Set[int]
    """Those of the two that exist."""
    following: bool
    """Whether the actor follows the other one."""
    favourite: bool
    """Whether the other one is a favourite; then the actor follows them."""
    number: int
    """How many favourites the actor has, with this one if it is one."""


class FavouriteStore(Protocol):
    """Where favourites are kept. Each call is all or nothing; what it is given may be asked more than once."""

    async def favour(self, actor_id: int, favourite_id: int, judge: Callable[[Situation], bool]) -> bool:
        """Make a user whom the actor follows a favourite if `judge` says so; what it said. What it raises is raised."""
        ...

    async def unfavour(self, actor_id: int, favourite_id: int, check: Callable[[Situation], None]) -> bool:
        """Make a favourite an ordinary followee; whether it was one. What `check` raises is raised."""
        ...


class Favourites:
    """Makes favourites of those whom somebody follows, and undoes it. Nobody gets beyond `limit` favourites.

    A favourite ends with its follow, whatever ends that. What an actor reads is their own affair, also while they are
    suspended. As with follows, whatever succeeds has made caches forget, also where nothing changed.
    """

    def __init__(self, store: FavouriteStore, caches: Caches, limit: int) -> None:
        self._store = store
        self._caches = caches
        self._limit = limit

    async def favour(self, actor_id: int, favourite_id: int) -> bool:
        """Make a user a favourite of the actor; whether that is new. Raises NotFound and FailedPrecondition."""
        new = await self._store.favour(
            actor_id, favourite_id, lambda situation: is_new(situation, actor_id, favourite_id, self._limit)
        )
        await self._caches.forget(contexts=[actor_id])
        return new

    async def unfavour(self, actor_id: int, favourite_id: int) -> bool:
        """Make a user no favourite; whether they were one. Raises NotFound."""
        ended = await self._store.unfavour(
            actor_id, favourite_id, lambda situation: require_both(situation.existing, actor_id, favourite_id, FIELD)
        )
        await self._caches.forget(contexts=[actor_id])
        return ended


def is_new(situation: Situation, actor_id: int, favourite_id: int, limit: int) -> bool:
    """Whether a favourite is to be made; False where it is one. Raises NotFound and FailedPrecondition."""
    require_both(situation.existing, actor_id, favourite_id, FIELD)
    if not situation.following:
        message = f"{FIELD}: the actor does not follow {favourite_id}"
        raise FailedPrecondition("NOT_FOLLOWING", message, user_id=favourite_id)
    if not situation.favourite and situation.number >= limit:
        message = f"actor_id: has {limit} favourites, which is as many as one may"
        raise FailedPrecondition("FAVOURITES_LIMIT_REACHED", message, limit=limit)
    return not situation.favourite
