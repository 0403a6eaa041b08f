"""What follows from changes of accounts: what is cached of them is read anew, and what is left of a deleted one erased."""

from collections.abc import Collection, Sequence, Set
from typing import Protocol

from fanout_service.events import AccountChange, AccountEvent, EraseWish
from fanout_service.graph_events import CachedEdges
from fanout_service.wishes import Wishes

STANDINGS = {AccountChange.SUSPENDED, AccountChange.RESTORED}
"""Changes of how a user stands who is still there."""


class CachedUsers(CachedEdges, Protocol):
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
        deleted = _users(events, {AccountChange.DELETED})
        if changed := _users(events, STANDINGS) - deleted:
            await self._cached.standings_changed(changed)
        if choosers := _users(events, {AccountChange.VIEW_CHOSEN}) - deleted:
            await self._cached.edges_changed(contexts=choosers, hidden=())
        if deleted:
            await self._cached.users_deleted(deleted)
            await self._wishes.leave([EraseWish(user_id) for user_id in sorted(deleted)])


def _users(events: Sequence[AccountEvent], changes: Set[AccountChange]) -> Set[int]:
    """Whose accounts have changed in one of these ways."""
    return {event.user_id for event in events if event.change in changes}
