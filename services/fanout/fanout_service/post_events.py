"""What follows from posts that were written, edited and deleted: who is pushed, who is pulled, and what is taken back."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from fanout_service.authors import Authors
from fanout_service.delivery import Delivery
from fanout_service.events import EraseWish, PostChange, PostEvent
from fanout_service.wishes import Wishes


class CachedPosts(Protocol):
    """Copies of the truth about posts."""

    async def posts_changed(self, events: Sequence[PostEvent]) -> None:
        """Forget the bodies, and the lists of authors who deleted something; add what is new to the lists that are there.

        One round trip. A list that comes to be later is read from a truth that knows of all this.
        """
        ...


class Recents(Protocol):
    """The newest posts of pulled authors, for everybody who follows them."""

    async def announce(self, author_ids: Collection[int]) -> None:
        """Tell every `timeline` that these lists have changed, or are to be read from now on; one round trip."""
        ...


class PostEvents:
    """Handles post events. Each outcome depends on the truth alone, not on the order or the number of events."""

    def __init__(
        self, cached: CachedPosts, authors: Authors, recents: Recents, delivery: Delivery, wishes: Wishes
    ) -> None:
        self._cached = cached
        self._authors = authors
        self._recents = recents
        self._delivery = delivery
        self._wishes = wishes

    async def handle(self, events: Sequence[PostEvent]) -> None:
        """Return when everything that follows from them cannot be lost any more. Raises the first error."""
        await self._cached.posts_changed(events)
        written, deleted = by_author(events)
        if not (written or deleted):
            return
        standings = await self._authors.classify(written.keys() | deleted.keys())
        if standings.deleted:
            # What was written beside the deletion of its author's account may have escaped the erasure.
            await self._wishes.leave([EraseWish(author_id) for author_id in standings.deleted])
        if pulled := set(standings.pulled) - set(standings.deleted):
            await self._recents.announce(pulled)
        pushed = (written.keys() | deleted.keys()) - set(standings.pulled) - set(standings.deleted)
        await self._delivery.deliver({author: posts for author, posts in written.items() if author in pushed})
        await self._delivery.withdraw({author: posts for author, posts in deleted.items() if author in pushed})


class PostsByAuthor(NamedTuple):
    """The different posts of some events, by author, oldest first."""

    written: dict[int, list[int]]
    """Without those of them that were deleted, whichever was told first: no deleted post ever comes back."""
    deleted: dict[int, list[int]]


def by_author(events: Iterable[PostEvent]) -> PostsByAuthor:
    """What was written and what was deleted. An edit changes no timeline."""
    told = {(event.change, event.author_id, event.post_id) for event in events}
    deleted = {(author, post) for change, author, post in told if change is PostChange.DELETED}
    written = {(author, post) for change, author, post in told if change is PostChange.WRITTEN}
    return PostsByAuthor(_grouped(written - deleted), _grouped(deleted))


def _grouped(posts: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = {}
    for author_id, post_id in sorted(posts):
        grouped.setdefault(author_id, []).append(post_id)
    return grouped
