"""Who was here lately."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from feedkit.errors import user_not_found


class ActiveUsers(NamedTuple):
    """Those of some users in a row, ascending, who were active lately; the last of the row."""

    user_ids: Sequence[int]
    last_id: int | None
    """None at the end."""


class ActivityStore(Protocol):
    """Where activity is kept, by days."""

    async def record_activity(self, user_id: int) -> bool:
        """Note that a user is active today, writing nothing where that is noted; whether there is such a user."""
        ...

    async def active_users(self, active_days: int, after: int, limit: int) -> ActiveUsers:
        """Those of the first `limit` users with an id above `after` who were active in the last `active_days`."""
        ...


class Activity:
    """Records that users are active, and tells who was."""

    def __init__(self, store: ActivityStore, stream_page: int) -> None:
        """`stream_page`: how many ids a page of a stream holds."""
        self._store = store
        self._stream_page = stream_page

    async def record(self, user_id: int) -> None:
        """Record that a user is active now, to the day. Raises NotFound."""
        if not await self._store.record_activity(user_id):
            raise user_not_found(user_id, "user_id")

    async def stream_active_users(self, active_days: int) -> AsyncIterator[Sequence[int]]:
        """The ids, ascending, of users who were active today or on one of the `active_days` before, in UTC.

        A page has those of as many users in a row as it could hold, so however few they are, no statement takes long.
        """
        after: int | None = 0
        while after is not None:
            user_ids, after = await self._store.active_users(active_days, after, self._stream_page)
            if user_ids:
                yield user_ids
