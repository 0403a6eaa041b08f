"""Who was here lately."""

from typing import Protocol

from feedkit.errors import user_not_found


class ActivityStore(Protocol):
    """Where activity is kept, by days."""

    async def record_activity(self, user_id: int) -> bool:
        """Note that a user is active today, writing nothing where that is noted; whether there is such a user."""
        ...


class Activity:
    """Records that users are active."""

    def __init__(self, store: ActivityStore) -> None:
        self._store = store

    async def record(self, user_id: int) -> None:
        """Record that a user is active now, to the day. Raises NotFound."""
        if not await self._store.record_activity(user_id):
            raise user_not_found(user_id, "user_id")
