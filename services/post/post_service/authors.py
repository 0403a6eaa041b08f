"""Who may write: asked of whoever knows, and remembered for a short while."""

import time
from collections.abc import Awaitable, Callable
from enum import Enum

from feedkit.errors import FailedPrecondition, PermissionDenied, user_not_found


class Standing(Enum):
    """How an account stands."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class Authors:
    """Remembers who may write, and nothing else: one who may not, may again at any moment."""

    def __init__(
        self,
        standing: Callable[[int], Awaitable[Standing | None]],
        *,
        remember: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`standing` asks whoever knows; None is an account that never was, or has been deleted.

        At most `remember` authors are remembered, those asked for last, each for `seconds`, by a `clock` that only goes
        forward.
        """
        self._standing = standing
        self._remember = remember
        self._seconds = seconds
        self._clock = clock
        self._until: dict[int, float] = {}

    async def require(self, user_id: int, field: str) -> None:
        """See that somebody, whom the request names by `field`, may write.

        Raises NotFound (USER_NOT_FOUND), PermissionDenied (ACCOUNT_SUSPENDED); Unavailable where nobody can tell.
        """
        if await self._standing_of(user_id, field) is Standing.SUSPENDED:
            raise PermissionDenied("ACCOUNT_SUSPENDED", f"{field}: the account {user_id} is suspended")

    async def require_account(self, user_id: int, field: str) -> None:
        """See that somebody, whom the request names by `field`, is there, suspended or not.

        Raises NotFound (USER_NOT_FOUND); Unavailable where nobody can tell.
        """
        await self._standing_of(user_id, field)

    async def _standing_of(self, user_id: int, field: str) -> Standing:
        if self._clock() < self._until.get(user_id, 0.0):
            return Standing.ACTIVE
        # What is told may be as old as the question.
        until = self._clock() + self._seconds
        standing = await self._standing(user_id)
        if standing is None:
            raise user_not_found(user_id, field)
        if standing is Standing.ACTIVE:
            self._remember_active(user_id, until)
        return standing

    def _remember_active(self, user_id: int, until: float) -> None:
        # Those asked for last come last.
        self._until.pop(user_id, None)
        self._until[user_id] = until
        if len(self._until) > self._remember:
            del self._until[next(iter(self._until))]

    async def require_deleted(self, user_id: int) -> None:
        """See that somebody is gone, which is never taken from memory. Raises FailedPrecondition (USER_NOT_DELETED)."""
        if await self._standing(user_id) is not None:
            raise FailedPrecondition(
                "USER_NOT_DELETED", f"author_id: the user {user_id} has not been deleted", user_id=user_id
            )
