"""Pushes posts to the timelines of their authors' active followers, and takes deleted ones out of them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol

from fanout_service.concurrency import all_of
from fanout_service.events import Chunk
from fanout_service.timelines import Entry, Timelines


class ActiveFollowers(Protocol):
    """The truth about who is pushed to."""

    def active_followers(self, author_id: int) -> AsyncGenerator[Sequence[int]]:
        """The followers who were active lately, page by page."""
        ...


class Chunks(Protocol):
    """Where parts of large fan-outs are left for all workers."""

    async def leave(self, work: Sequence[Chunk]) -> None:
        """Return when they cannot be lost any more. Raises Unavailable where that is not known."""
        ...


class Sizes(NamedTuple):
    """How much is done at a time."""

    push_batch: int
    """Followers in one round trip."""
    chunk: int
    """The most followers who are pushed to at once; for more, chunks of so many are left to all workers."""
    authors_at_once: int


class Delivery:
    """Delivers posts and withdraws them. Doing again what has been done changes nothing.

    A post that is delivered after it was withdrawn, because events or chunks came again, takes up room and is not shown.
    """

    def __init__(self, followers: ActiveFollowers, timelines: Timelines, chunks: Chunks, sizes: Sizes) -> None:
        self._followers = followers
        self._timelines = timelines
        self._chunks = chunks
        self._sizes = sizes

    async def deliver(self, posts: Mapping[int, Sequence[int]]) -> None:
        """Deliver posts, given by author and oldest first."""
        await self._spread(posts, withdrawn=False)

    async def withdraw(self, posts: Mapping[int, Sequence[int]]) -> None:
        """Withdraw deleted posts, given by author."""
        await self._spread(posts, withdrawn=True)

    async def deliver_chunk(self, chunk: Chunk) -> None:
        """Do a part of a large fan-out."""
        await self._carry([chunk.post_id], chunk.author_id, chunk.follower_ids, withdrawn=chunk.withdrawn)

    async def _spread(self, posts: Mapping[int, Sequence[int]], *, withdrawn: bool) -> None:
        work = (self._spread_author(author, post_ids, withdrawn=withdrawn) for author, post_ids in posts.items())
        await all_of(work, self._sizes.authors_at_once)

    async def _spread_author(self, author_id: int, post_ids: Sequence[int], *, withdrawn: bool) -> None:
        waiting: list[int] = []
        is_large = False
        async with aclosing(self._followers.active_followers(author_id)) as pages:
            async for page in pages:
                waiting.extend(page)
                while len(waiting) > self._sizes.chunk:
                    is_large = True
                    part, waiting = waiting[: self._sizes.chunk], waiting[self._sizes.chunk :]
                    await self._leave(post_ids, author_id, part, withdrawn=withdrawn)
        if is_large:
            await self._leave(post_ids, author_id, waiting, withdrawn=withdrawn)
        else:
            await self._carry(post_ids, author_id, waiting, withdrawn=withdrawn)

    async def _leave(
        self, post_ids: Sequence[int], author_id: int, follower_ids: Sequence[int], *, withdrawn: bool
    ) -> None:
        await self._chunks.leave([Chunk(post_id, author_id, follower_ids, withdrawn) for post_id in post_ids])

    async def _carry(
        self, post_ids: Sequence[int], author_id: int, follower_ids: Sequence[int], *, withdrawn: bool
    ) -> None:
        entries = [Entry(post_id, author_id) for post_id in post_ids]
        for start in range(0, len(follower_ids), self._sizes.push_batch):
            batch = follower_ids[start : start + self._sizes.push_batch]
            if withdrawn:
                await self._timelines.withdraw(batch, post_ids)
            else:
                await self._timelines.push(batch, entries)
