"""What follows from posts that were written and deleted: who is pushed, and who is pulled."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from fanout_service.delivery import Delivery
from fanout_service.events import PostEvent


class CachedPosts(Protocol):
    """Copies of the truth about posts."""

    async def posts_changed(self, events: Sequence[PostEvent]) -> None:
        """Forget the bodies, and add what is new to what its author's own timeline is read from; one round trip."""
        ...


class PulledAuthors(Protocol):
    """The index of the authors whose posts are not pushed."""

    async def pulled(self, author_ids: Collection[int]) -> Collection[int]:
        """Those who are pulled. Whoever becomes so by this question is in the index before the answer."""
        ...


class Recents(Protocol):
    """The newest posts of pulled authors, for everybody who follows them."""

    async def announce(self, posts: Mapping[int, Sequence[int]]) -> None:
        """Add posts, given by author, and tell every `timeline`; one round trip."""
        ...


class PostEvents:
    """Handles post events. Each outcome depends on the truth alone, not on the order or the number of events."""

    def __init__(self, cached: CachedPosts, index: PulledAuthors, recents: Recents, delivery: Delivery) -> None:
        self._cached = cached
        self._index = index
        self._recents = recents
        self._delivery = delivery

    async def handle(self, events: Sequence[PostEvent]) -> None:
        """Return when everything that follows from them cannot be lost any more. Raises the first error."""
        await self._cached.posts_changed(events)
        written = written_by_author(events)
        if not written:
            return
        pulled = await self._index.pulled(written.keys())
        if pulled:
            await self._recents.announce({author_id: written[author_id] for author_id in pulled})
        await self._delivery.deliver({author: post_ids for author, post_ids in written.items() if author not in pulled})


def written_by_author(events: Iterable[PostEvent]) -> dict[int, list[int]]:
    """The different posts that were written, by author, oldest first."""
    written: dict[int, set[int]] = {}
    for event in events:
        if not event.deleted:
            written.setdefault(event.author_id, set()).add(event.post_id)
    return {author_id: sorted(post_ids) for author_id, post_ids in written.items()}
