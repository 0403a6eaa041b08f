"""Pushes posts to the timelines of their authors' active followers."""

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
    """Delivers posts. Delivering again what has been delivered changes nothing."""

    def __init__(self, followers: ActiveFollowers, timelines: Timelines, chunks: Chunks, sizes: Sizes) -> None:
        self._followers = followers
        self._timelines = timelines
        self._chunks = chunks
        self._sizes = sizes

    async def deliver(self, posts: Mapping[int, Sequence[int]]) -> None:
        """Deliver posts, given by author and oldest first."""
        work = (self._deliver_author(author_id, post_ids) for author_id, post_ids in posts.items())
        await all_of(work, self._sizes.authors_at_once)

    async def deliver_chunk(self, chunk: Chunk) -> None:
        """Deliver a part of a large fan-out."""
        await self._push(chunk.follower_ids, [Entry(chunk.post_id, chunk.author_id)])

    async def _deliver_author(self, author_id: int, post_ids: Sequence[int]) -> None:
        waiting: list[int] = []
        is_large = False
        async with aclosing(self._followers.active_followers(author_id)) as pages:
            async for page in pages:
                waiting.extend(page)
                while len(waiting) > self._sizes.chunk:
                    is_large = True
                    await self._leave(author_id, post_ids, waiting[: self._sizes.chunk])
                    del waiting[: self._sizes.chunk]
        if is_large:
            await self._leave(author_id, post_ids, waiting)
        else:
            await self._push(waiting, [Entry(post_id, author_id) for post_id in post_ids])

    async def _leave(self, author_id: int, post_ids: Sequence[int], follower_ids: Sequence[int]) -> None:
        await self._chunks.leave([Chunk(post_id, author_id, follower_ids) for post_id in post_ids])

    async def _push(self, follower_ids: Sequence[int], entries: Sequence[Entry]) -> None:
        for start in range(0, len(follower_ids), self._sizes.push_batch):
            await self._timelines.push(follower_ids[start : start + self._sizes.push_batch], entries)
