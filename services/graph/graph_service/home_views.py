"""In which view somebody wants to be shown their home timeline, where a read does not say."""

from enum import IntEnum
from typing import Protocol

from feedkit.errors import user_not_found

from graph_service.caches import Caches


class HomeView(IntEnum):
    """A view of a home timeline; the values are kept in the database."""

    LATEST = 0
    """Newest first; also where nothing was ever chosen."""
    RANKED = 1
    """By what the viewer is expected to care for."""


class HomeViewStore(Protocol):
    """Where the chosen views are kept, and when they were chosen. Deleted users do not exist here."""

    async def choose(self, user_id: int, view: HomeView) -> bool | None:
        """Choose a view; whether it was another one before, None for an unknown user."""
        ...

    async def chosen(self, user_id: int) -> HomeView | None:
        """The view that a user has chosen; None for an unknown user."""
        ...


class HomeViews:
    """Chooses views, and tells which was chosen.

    As with follows, whatever succeeds has made caches forget, also where nothing changed.
    """

    def __init__(self, store: HomeViewStore, caches: Caches) -> None:
        self._store = store
        self._caches = caches

    async def choose(self, user_id: int, view: HomeView) -> bool:
        """Choose a view; whether that changes anything. Raises NotFound."""
        changed = await self._store.choose(user_id, view)
        if changed is None:
            raise user_not_found(user_id, "user_id")
        await self._caches.forget(contexts=[user_id])
        return changed

    async def get(self, user_id: int) -> HomeView:
        """The view that a user has chosen. Raises NotFound."""
        chosen = await self._store.chosen(user_id)
        if chosen is None:
            raise user_not_found(user_id, "user_id")
        return chosen
