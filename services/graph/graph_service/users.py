"""Users: making them and finding them."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from feedkit.errors import user_not_found


class Standing(IntEnum):
    """How an account stands; the values are kept in the database."""

    ACTIVE = 0
    SUSPENDED = 1
    """By an operator: nothing that it wrote is shown, and it can neither post nor follow."""
    DELETED = 2
    """For good: to everybody it is as one that never was, and what is left of it is being erased."""


class User(NamedTuple):
    """Somebody who writes and reads, and is not deleted. The counts are 0 where they were not asked for."""

    id: int
    name: str
    follower_count: int = 0
    following_count: int = 0
    standing: Standing = Standing.ACTIVE


class UserStore(Protocol):
    """Where users are kept. Deleted ones do not exist here."""

    async def create_user(self, name: str) -> User:
        """A new user of that name."""
        ...

    async def users(self, user_ids: Sequence[int]) -> list[User]:
        """Those of the users that exist, with counts, in any order."""
        ...

    async def user_names(self, user_ids: Sequence[int]) -> list[User]:
        """Those of the users that exist, without counts, in any order."""
        ...


class Users:
    """Makes users and finds them."""

    def __init__(self, store: UserStore) -> None:
        self._store = store

    async def create(self, name: str) -> User:
        """Make a user. Every call makes another one."""
        return await self._store.create_user(name)

    async def get(self, user_id: int) -> User:
        """One user with counts. Raises NotFound."""
        users = await self._store.users([user_id])
        if not users:
            raise user_not_found(user_id, "user_id")
        return users[0]

    async def get_many(self, user_ids: Sequence[int], *, with_counts: bool) -> list[User]:
        """Those of the users that exist, each once, in the order in which they were first asked for."""
        asked = list(dict.fromkeys(user_ids))
        read = self._store.users if with_counts else self._store.user_names
        found = {user.id: user for user in await read(asked)}
        return [found[user_id] for user_id in asked if user_id in found]
