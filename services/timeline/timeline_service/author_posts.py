"""The newest posts of single authors: lists that are cached, and filled from the truth by whoever misses them."""

import asyncio
import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, Self

from timeline_service.pull_source import Pull
from timeline_service.source import NOT_NOW, TOP

AT_ONCE = 8
"""How many authors' posts are read from the truth at the same time, to fill their lists."""
MOST_READ = 32
"""How many authors' posts one reader waits for at most, to fill their lists."""
MOST_PULLED = 1000
"""How many posts can be pulled with one call."""


class AuthorPosts(NamedTuple):
    """The newest posts of one author."""

    post_ids: Sequence[int]
    """Oldest first, all above the horizon."""
    horizon: int
    """Every post of the author above it is in the list; 0: all posts are."""

    @classmethod
    def of(cls, newest_first: Sequence[int], horizon: int) -> Self:
        """A list that takes a fifth of the memory of a tuple, because many are kept."""
        return cls(array("q", newest_first[::-1]), horizon)


def newest(
    lists: Iterable[tuple[int, AuthorPosts]], position: int, limit: int, complete_to: int
) -> list[tuple[int, int]]:
    """The newest posts below a position, `limit` at most and none below `complete_to`, of authors with their lists.

    Post ids with their authors', newest first. A heap of plain Python: NumPy was ahead by some microseconds for a dozen
    authors, level for a hundred, and took two to three times as long for a thousand.
    """
    heads: list[tuple[int, int, int, Sequence[int]]] = []
    for author_id, (post_ids, _) in lists:
        if post_ids:
            place = (len(post_ids) if post_ids[-1] < position else bisect_left(post_ids, position)) - 1
            if place >= 0:
                # No two heads have the same post, so nothing behind it is ever compared.
                heads.append((-post_ids[place], author_id, place, post_ids))
    heapq.heapify(heads)
    found: list[tuple[int, int]] = []
    while heads and len(found) < limit:
        negative, author_id, place, post_ids = heads[0]
        if -negative < complete_to:
            break
        found.append((-negative, author_id))
        if place:
            heapq.heapreplace(heads, (-post_ids[place - 1], author_id, place - 1, post_ids))
        else:
            heapq.heappop(heads)
    return found


class ListStore(Protocol):
    """Where authors' lists are cached. Every method raises one of source.NOT_NOW where the store does not answer."""

    async def get(self, author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        """Those lists that are there, by author."""
        ...

    async def lease(self, author_ids: Sequence[int]) -> Mapping[int, bytes]:
        """Leases to fill lists that are not there; none for lists that somebody else fills."""
        ...

    async def fill(self, leases: Mapping[int, bytes], lists: Mapping[int, AuthorPosts]) -> None:
        """Fill in those lists whose leases still stand; each of `lists` has one."""
        ...


class CachedLists:
    """Lists from the cache, or from the truth where they are not there."""

    def __init__(self, store: ListStore, pull: Pull, length: int) -> None:
        """`length` is how many posts a list has at most, 1,000 at most."""
        self._store = store
        self._pull = pull
        self._length = length

    async def get(self, author_ids: Sequence[int]) -> dict[int, AuthorPosts]:
        """The lists of these authors, as far as they can be had now."""
        try:
            lists = dict(await self._store.get(author_ids))
        except NOT_NOW:
            # Pull replaces what is missing, with one call. To read the truth for each would be a storm on an outage.
            return {}
        absent = [author_id for author_id in author_ids if author_id not in lists]
        # Of more than that, as after a loss of Redis, the rest is pulled with one call, and filled in by later readers.
        return lists | await self.read(absent[:MOST_READ]) if absent else lists

    async def read(self, author_ids: Sequence[int]) -> dict[int, AuthorPosts]:
        """The lists of these authors from the truth, as far as they can be had now; absent ones are filled in.

        Never joined to a read under way, which may be older than a change that the caller has to see.
        """
        try:
            # Before the truth is read: whoever changes it takes the leases away, so nothing outdated is filled in.
            leases = await self._store.lease(author_ids)
        except NOT_NOW:
            leases = dict[int, bytes]()
        gate = asyncio.Semaphore(AT_ONCE)
        read = await asyncio.gather(*(self._read_one(author_id, gate) for author_id in author_ids))
        lists = {author_id: posts for author_id, posts in zip(author_ids, read, strict=True) if posts is not None}
        await self._fill(leases, {author_id: lists[author_id] for author_id in leases if author_id in lists})
        return lists

    async def _read_one(self, author_id: int, gate: asyncio.Semaphore) -> AuthorPosts | None:
        async with gate:
            try:
                # One more than the list has, which tells whether the list is all that there is.
                limit = min(self._length + 1, MOST_PULLED)
                post_ids, _, complete_to = await self._pull.recent([author_id], TOP, limit)
            except NOT_NOW:
                return None
        if len(post_ids) > self._length:
            return AuthorPosts.of(post_ids[: self._length], post_ids[self._length])
        return AuthorPosts.of(post_ids, max(complete_to - 1, 0))

    async def _fill(self, leases: Mapping[int, bytes], lists: Mapping[int, AuthorPosts]) -> None:
        if lists:
            # What was read is right even where it cannot be filled in; then the next reader does that.
            with suppress(*NOT_NOW):
                await self._store.fill(leases, lists)
