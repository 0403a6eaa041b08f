"""How accounts stand, which is for operators to change."""

from collections.abc import Collection
from typing import Protocol

from feedkit.errors import user_not_found

from graph_service.caches import Caches
from graph_service.users import Standing

FIELD = "user_id"


class AccountStore(Protocol):
    """Where accounts are kept."""

    async def set_standing(self, user_id: int, of: Collection[Standing], standing: Standing) -> Standing | None:
        """Set the standing of an account that has one of `of`, with its event; what it was, None for an unknown one.

        A deleted one loses its name.
        """
        ...


class Accounts:
    """Suspends, restores and deletes accounts.

    As with follows, whatever succeeds has made caches forget, also where nothing changed.
    """

    def __init__(self, store: AccountStore, caches: Caches) -> None:
        self._store = store
        self._caches = caches

    async def suspend(self, user_id: int) -> None:
        """Suspend an account. Raises NotFound."""
        self._require(user_id, await self._store.set_standing(user_id, [Standing.ACTIVE], Standing.SUSPENDED))
        await self._caches.forget(users=[user_id])

    async def restore(self, user_id: int) -> None:
        """End the suspension of an account. Raises NotFound."""
        self._require(user_id, await self._store.set_standing(user_id, [Standing.SUSPENDED], Standing.ACTIVE))
        await self._caches.forget(users=[user_id])

    async def delete(self, user_id: int) -> None:
        """Delete an account for good; a deleted one is deleted, and its event told, once more. Raises NotFound."""
        if await self._store.set_standing(user_id, list(Standing), Standing.DELETED) is None:
            raise user_not_found(user_id, FIELD)
        await self._caches.forget(users=[user_id], contexts=[user_id], hidden=[user_id])

    def _require(self, user_id: int, was: Standing | None) -> None:
        if was is None or was is Standing.DELETED:
            raise user_not_found(user_id, FIELD)
