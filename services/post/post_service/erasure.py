"""Erasing whatever is left of deleted users, a slice at a time, so that it can stop anywhere and go on."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from post_service.authors import Authors
from post_service.posts import Caches

SLICE = 500
"""How many rows of a table are erased at a time, so that no statement holds its locks for long."""


class Erased(NamedTuple):
    """How many posts are gone for good, and whether nothing of their author is left."""

    posts: int
    done: bool


class Store(Protocol):
    """Where what is left of users is kept. Each call is all or nothing, and may be made many times, also at once."""

    async def begin(self, author_id: int) -> None:
        """Note that the erasure of somebody has begun, if that is not noted."""
        ...

    async def begun(self, at_most: int) -> list[int]:
        """Some whose erasure began so long ago that nobody takes them for active any more, those of the longest first."""
        ...

    async def finish(self, author_id: int) -> None:
        """Remove the note of somebody's erasure."""
        ...

    async def retract(self, author_id: int, at_most: int) -> list[int]:
        """Delete some posts of an author, without an event of them; ids of deleted ones, these or others.

        What they replied to counts fewer replies, which is told.
        """
        ...

    async def erase_posts(self, author_id: int, post_ids: Sequence[int], at_most: int) -> int:
        """Remove deleted posts of an author for good, if no engagement with them is left; how many.

        At most `at_most` rows are removed of the engagement with them, and of the author's idempotency keys.
        """
        ...

    async def erase_deeds(self, actor_id: int, at_most: int) -> None:
        """Remove some of what somebody did with posts and has seen of them, with counts and events."""
        ...

    async def is_erased(self, author_id: int) -> bool:
        """Whether nothing is left."""
        ...


class Erasure:
    """Erases deleted users."""

    def __init__(self, store: Store, caches: Caches, authors: Authors) -> None:
        self._store = store
        self._caches = caches
        self._authors = authors

    async def erase(self, author_id: int) -> Erased:
        """Erase a slice of what somebody left who has been deleted. Again and again, until nothing is left.

        What was under way when its author was deleted may be found by a later call only: a post's event tells of it, and
        `erase_once_more` is sure to meet it. Raises FailedPrecondition (USER_NOT_DELETED), Unavailable.
        """
        await self._authors.require_deleted(author_id)
        await self._store.begin(author_id)
        return await self._erase_slice(author_id)

    async def erase_once_more(self, at_most: int) -> int:
        """Erase a slice of some whose erasure began so long ago that nothing can come any more; how many are finished."""
        finished = 0
        for author_id in await self._store.begun(at_most):
            if (await self._erase_slice(author_id)).done:
                await self._store.finish(author_id)
                finished += 1
        return finished

    async def _erase_slice(self, author_id: int) -> Erased:
        post_ids = await self._store.retract(author_id, SLICE)
        # In between, as ids that are gone cannot be forgotten any more; and after the deletion, as nobody can fill in then
        # what they say. Whoever dies here has left them to be found again.
        await self._caches.forget(author_id, post_ids)
        posts = await self._store.erase_posts(author_id, post_ids, SLICE)
        await self._store.erase_deeds(author_id, SLICE)
        return Erased(posts, done=await self._store.is_erased(author_id))
