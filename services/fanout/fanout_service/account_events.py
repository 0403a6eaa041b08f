"""What follows from changes of accounts: how one stood is forgotten, and what is left of a deleted one erased."""

from collections.abc import Collection, Sequence
from typing import Protocol

from fanout_service.events import AccountChange, AccountEvent, EraseWish
from fanout_service.wishes import Wishes


class CachedUsers(Protocol):
    """Copies of the truth about users, and what is derived from it."""

    async def standings_changed(self, user_ids: Collection[int]) -> None:
        """Forget how users stand; one round trip."""
        ...

    async def users_deleted(self, user_ids: Collection[int]) -> None:
        """Forget everything about users, their timelines included; one round trip."""
        ...


class AccountEvents:
    """Handles what happened to accounts; see `post_events.PostEvents`."""

    def __init__(self, cached: CachedUsers, wishes: Wishes) -> None:
        self._cached = cached
        self._wishes = wishes

    async def handle(self, events: Sequence[AccountEvent]) -> None:
        """Return when everything that follows from them cannot be lost any more. Raises the first error."""
        deleted = list(dict.fromkeys(event.user_id for event in events if event.change is AccountChange.DELETED))
        if changed := {event.user_id for event in events} - set(deleted):
            await self._cached.standings_changed(changed)
        if deleted:
            await self._cached.users_deleted(deleted)
            await self._wishes.leave([EraseWish(user_id) for user_id in deleted])
