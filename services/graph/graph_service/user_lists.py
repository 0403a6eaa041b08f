"""Followers, followees, favourites, the blocked and the muted as pages for people; follows as streams for jobs that visit
everybody."""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from feedkit.cursor import MAX_ID, clamp_page_size
from feedkit.errors import InvalidArgument, user_not_found

from graph_service.users import User

# The list and the sequence number: nine bytes, which are twelve characters without padding, so that a token has one
# spelling only.
_POSITION = struct.Struct(">Bq")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{12}", re.ASCII)
_RULE = "must be empty or a next_page_token that this call returned"


class Side(Enum):
    """Which end of which edges is listed; the values stand in page tokens."""

    FOLLOWERS = 1
    FOLLOWEES = 2
    BLOCKED = 3
    MUTED = 4
    FAVOURITES = 5


class Listed(NamedTuple):
    """A user at a position in a list. Positions fall from the newest edge to the oldest and never come twice."""

    position: int
    user: User


class Ids(NamedTuple):
    """Some ids of a list in its order, and the position of the last."""

    user_ids: Sequence[int]
    position: int


class ActiveIds(NamedTuple):
    """Those of some followers in a row who were active lately, in any order; the position of the last in the row."""

    user_ids: Sequence[int]
    position: int | None
    """None at the end of the list."""


class Page(NamedTuple):
    """A page of users; the token is empty at the end, and only there."""

    users: Sequence[User]
    next_page_token: str


class UserListStore(Protocol):
    """Where the lists are read. They go from the newest edge to the oldest. Deleted users do not exist here."""

    async def list_users(self, side: Side, user_id: int, before: int, limit: int) -> list[Listed]:
        """The first `limit` users, with counts, after the position `before`; nobody for an unknown user."""
        ...

    async def follow_ids(self, side: Side, user_id: int, before: int, limit: int) -> Ids | None:
        """The first `limit` ids of a side of follows after the position `before`; None if there are none."""
        ...

    async def active_follower_ids(self, user_id: int, active_days: int, before: int, limit: int) -> ActiveIds:
        """Those of the first `limit` followers after the position `before` who were active in the last `active_days`."""
        ...

    async def user_exists(self, user_id: int) -> bool:
        """Whether there is such a user."""
        ...


class UserLists:
    """Lists the users at the other end of somebody's edges, the newest edge first.

    A place in a list is the position of an edge, not the edge, which may be gone. One that is ended and made again gets a
    new position at the top, so no walk from the top downwards meets anybody twice. Streams are of edges alone: a deleted
    user is in them until their follows are erased.
    """

    def __init__(self, store: UserListStore, stream_page: int) -> None:
        """`stream_page`: how many ids a page of a stream holds."""
        self._store = store
        self._stream_page = stream_page

    async def page(self, side: Side, user_id: int, page_size: int, page_token: str) -> Page:
        """A page of at most `page_size` users with counts. Raises NotFound, and InvalidArgument for a foreign token."""
        before = read_token(side, page_token)
        size = clamp_page_size(page_size)
        listed = await self._store.list_users(side, user_id, before, size + 1)
        if not listed and not await self._store.user_exists(user_id):
            raise user_not_found(user_id, "user_id")
        more = len(listed) > size
        return Page([item.user for item in listed[:size]], write_token(side, listed[size - 1].position) if more else "")

    async def stream(self, side: Side, user_id: int) -> AsyncIterator[Sequence[int]]:
        """All ids of a side of follows, in full pages. No connection is held while the consumer is busy with a page."""
        before = MAX_ID
        while (page := await self._store.follow_ids(side, user_id, before, self._stream_page)) is not None:
            yield page.user_ids
            if len(page.user_ids) < self._stream_page:
                return
            before = page.position

    async def stream_active_followers(self, user_id: int, active_days: int) -> AsyncIterator[Sequence[int]]:
        """The ids of followers who were active today or on one of the `active_days` before, in UTC.

        A page has those of as many followers in a row as it could hold, so however few they are, no statement takes long.
        """
        before: int | None = MAX_ID
        while before is not None:
            user_ids, before = await self._store.active_follower_ids(user_id, active_days, before, self._stream_page)
            if user_ids:
                yield user_ids


def write_token(side: Side, position: int) -> str:
    """The page token of a position in a list."""
    return urlsafe_b64encode(_POSITION.pack(side.value, position)).decode()


def read_token(side: Side, token: str) -> int:
    """The position that a token stands for, for an empty one the position before all. Raises InvalidArgument."""
    if not token:
        return MAX_ID
    if _TOKEN.fullmatch(token):
        listed, position = _POSITION.unpack(urlsafe_b64decode(token))
        if listed == side.value and position > 0:
            return position
    raise InvalidArgument.of_field("page_token", _RULE, reason="INVALID_PAGE_TOKEN")
