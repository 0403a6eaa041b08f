"""Writing posts and reading them back."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from feedkit.cursor import MAX_ID, Position, clamp_page_size
from feedkit.errors import NotFound, PermissionDenied, post_not_found

from post_service.audience import Audience
from post_service.authors import Authors
from post_service.idempotency import Earlier, Key, check_same
from post_service.post import Draft, Edit, Post
from post_service.traits import Outline, Traits


class Created(NamedTuple):
    """A post that was asked for, and whether it had been written before."""

    post: Post
    replayed: bool


class Page(NamedTuple):
    """Post ids, newest first, and the cursor of what follows; empty at the end, and only there."""

    post_ids: list[int]
    next_page_token: str


class Recent(NamedTuple):
    """Post ids, newest first, the author of each, and the id down to which they are all there are; 0 = to the beginning."""

    post_ids: list[int]
    author_ids: list[int]
    complete_to_post_id: int


class Held(NamedTuple):
    """A post that nobody else changes for the time being, and whether it was deleted."""

    post: Post
    deleted: bool


class Ids(Protocol):
    """Where ids come from."""

    async def next_id(self) -> int:
        """An id that nobody else has. Raises Unavailable (IDS_UNAVAILABLE)."""
        ...


class Writing(Protocol):
    """One transaction: all of it happens, its events included, or nothing."""

    async def claim(self, key: Key) -> Earlier | None:
        """Take an idempotency key, or tell what it stands for, having waited for whoever is using it just now.

        Raises Aborted (IDEMPOTENCY_KEY_IN_FLIGHT) where that takes too long.
        """
        ...

    async def add(self, post: Post, key: Key | None) -> None:
        """Write a post, for which the key stands from now on; what it replies to counts it.

        Raises NotFound where what it replies to does not stand.
        """
        ...

    async def hold(self, post_id: int) -> Held | None:
        """A post, deleted or not, which nobody else changes until the end of the transaction; None if there is none."""
        ...

    async def edit(self, post: Post) -> Post:
        """Write text and media of a post that stands; the post with the time of that."""
        ...

    async def delete(self, post: Post) -> None:
        """Delete a post that stands; what it replies to counts it no longer."""
        ...


class Store(Protocol):
    """Where posts are kept."""

    def writing(self) -> AbstractAsyncContextManager[Writing]:
        """A transaction, committed at the end of the block."""
        ...

    async def read(self, post_ids: Sequence[int]) -> dict[int, Post]:
        """Those of the posts that stand, by id."""
        ...

    async def outlines(self, post_ids: Sequence[int]) -> dict[int, Outline]:
        """What is to be known of those of the posts that stand, by id."""
        ...

    async def ids_of_author(self, author_id: int, before_id: int, limit: int) -> list[int]:
        """The newest posts of an author with ids below a bound."""
        ...

    async def recent(self, author_ids: Sequence[int], before_id: int, limit: int) -> list[tuple[int, int]]:
        """The newest posts of some distinct authors with ids below a bound: post id and author id."""
        ...


class Caches(Protocol):
    """What timelines remember of posts.

    Every step ends in less than a second. What cannot be done in that is done behind the change.
    """

    async def add(self, author_id: int, post_id: int) -> None:
        """See that the author's own timeline has a post, and that nobody remembers that there was none of its id."""
        ...

    async def forget_body(self, post_id: int) -> None:
        """See that nothing from before now is remembered of what a post says."""
        ...

    async def forget(self, author_id: int, post_ids: Sequence[int]) -> None:
        """See that nothing from before now is remembered of some posts, nor of which ones are their author's newest."""
        ...


class Posts:
    """What the service does.

    A change is told to the caches before it is acknowledged, also where it had been made before: a caller who asks again
    may do so because the first try ended between the two.
    """

    def __init__(self, store: Store, caches: Caches, ids: Ids, authors: Authors, audience: Audience) -> None:
        self._store = store
        self._caches = caches
        self._ids = ids
        self._authors = authors
        self._audience = audience

    async def create(self, draft: Draft, idempotency_key: str) -> Created:
        """Write a post, or find the one for which the key (empty: none) stands.

        Raises InvalidArgument, NotFound (the author; what is replied to, also where one of the two authors blocks the
        other), PermissionDenied (the author is suspended), FailedPrecondition (the key was used for something else),
        Aborted (it is in use just now), Unavailable.
        """
        draft.check()
        await self._authors.require(draft.author_id, "author_id")
        created = await self._write(draft, Key.of(draft, idempotency_key) if idempotency_key else None)
        await self._caches.add(draft.author_id, created.post.id)
        return created

    async def _write(self, draft: Draft, key: Key | None) -> Created:
        # Asked before, so that no transaction waits for an answer; but whoever has replied already is not refused.
        refusal = await self._refusal(draft)
        async with self._store.writing() as writing:
            if key and (earlier := await writing.claim(key)):
                check_same(key, earlier)
                # As it was first written, whatever became of it since: the request is the same, so it has all of it.
                return Created(draft.as_post(earlier.post_id), replayed=True)
            if refusal:
                raise refusal
            # Not before the key is ours: a retry must find its post even where no ids can be made.
            post = draft.as_post(await self._ids.next_id())
            await writing.add(post, key)
        return Created(post, replayed=False)

    async def _refusal(self, draft: Draft) -> NotFound | None:
        """Why a draft cannot reply to what it names."""
        if draft.reply_to:
            try:
                await self._audience.require(draft.author_id, "author_id", draft.reply_to)
            except NotFound as refusal:
                return refusal
        return None

    async def get(self, post_id: int) -> Post:
        """One post. Raises NotFound, also for a deleted one."""
        found = await self._store.read([post_id])
        if post_id not in found:
            raise post_not_found(post_id)
        return found[post_id]

    async def batch(self, post_ids: Sequence[int]) -> list[Post]:
        """Those of the posts that stand, each once, in the order asked for."""
        found = await self._store.read(post_ids)
        return [found[post_id] for post_id in dict.fromkeys(post_ids) if post_id in found]

    async def traits(self, post_ids: Sequence[int]) -> list[Traits]:
        """The traits of those of the posts that stand, each once, in the order asked for."""
        found = await self._store.outlines(post_ids)
        traits: list[Traits] = []
        for outline in (found[post_id] for post_id in dict.fromkeys(post_ids) if post_id in found):
            traits.append(Traits.of(outline))
            if outline.tagged:
                # A long text full of `#` takes milliseconds, and there may be a thousand of them: others come in between.
                await asyncio.sleep(0)
        return traits

    async def of_author(self, author_id: int, page_size: int, page_token: str) -> Page:
        """A page of an author's posts. Raises InvalidArgument for a token that is no cursor."""
        size = clamp_page_size(page_size)
        position = Position.parse(page_token)
        found = await self._store.ids_of_author(author_id, position.id_bound if position else MAX_ID, size + 1)
        page = found[:size]
        return Page(page, str(Position.of(page[-1])) if len(found) > size else "")

    async def recent(self, author_ids: Sequence[int], before_post_id: int, limit: int) -> Recent:
        """The newest posts of many authors below an id (0 = from the newest)."""
        authors = list(dict.fromkeys(author_ids))
        found = await self._store.recent(authors, before_post_id or MAX_ID, limit) if authors else []
        complete_to = found[-1][0] if len(found) == limit else 0
        return Recent([post_id for post_id, _ in found], [author_id for _, author_id in found], complete_to)

    async def edit(self, actor_id: int, post_id: int, edit: Edit) -> Post:
        """Change one's own post; what changes nothing is no edit.

        Raises InvalidArgument, NotFound (the post, also a deleted one; the actor), PermissionDenied (another's; the actor
        is suspended), Unavailable.
        """
        await self._authors.require(actor_id, "actor_id")
        async with self._store.writing() as writing:
            held = await writing.hold(post_id)
            if held is None or held.deleted:
                raise post_not_found(post_id)
            _require_own(held.post, actor_id)
            post = edit.of(held.post)
            if post != held.post:
                post = await writing.edit(post)
        await self._caches.forget_body(post_id)
        return post

    async def delete(self, actor_id: int, post_id: int) -> None:
        """Delete one's own post, or find it deleted.

        Raises NotFound, also for another's that is deleted already; PermissionDenied for another's.
        """
        async with self._store.writing() as writing:
            held = await writing.hold(post_id)
            if held is None or (held.deleted and held.post.author_id != actor_id):
                raise post_not_found(post_id)
            _require_own(held.post, actor_id)
            if not held.deleted:
                await writing.delete(held.post)
        await self._caches.forget(actor_id, [post_id])


def _require_own(post: Post, actor_id: int) -> None:
    if post.author_id != actor_id:
        raise PermissionDenied("NOT_THE_AUTHOR", "only its author may change a post", post_id=post.id)
