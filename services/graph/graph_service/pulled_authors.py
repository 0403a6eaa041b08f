"""Which authors are pulled: pushing their posts to all of their followers is too dear, so those who read fetch them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Decision(NamedTuple):
    """Whether an author is pulled."""

    author_id: int
    pulled: bool
    follower_count: int
    deleted: bool = False
    """Whether the author has been deleted. Then there is nothing to pull for, and nobody enters the index."""


class IndexChange(NamedTuple):
    """What has changed in the index since a version of it that a reader knows."""

    version: int
    """The version of the index with this change."""
    entered_author_ids: Sequence[int]
    """Who are in it now, in the order in which they entered."""
    left_author_ids: Sequence[int]
    """Who are not in it now, in the order in which they left."""


class ShrunkAuthor(NamedTuple):
    """An author in the index with fewer followers than was asked for."""

    author_id: int
    follower_count: int
    sequence: int
    """How often it has been decided that the author is pulled."""


class PulledAuthorStore(Protocol):
    """Where the index of pulled authors is kept. Versions become visible in their order."""

    async def decide(self, author_ids: Sequence[int]) -> list[Decision]:
        """Count the followers of some distinct authors, and call those pulled who are in the index, which notes that.

        It is one round trip, and writes nothing about ordinary authors.
        """
        ...

    async def enter(self, author_ids: Sequence[int]) -> None:
        """Let authors into the index, together with a new version of it; for those who are in it, note the decision."""
        ...

    async def leave(self, author_id: int, sequence: int) -> bool:
        """Take an author who still has a sequence out of the index, together with a new version of it; whether it did."""
        ...

    async def changes_since(self, version: int) -> IndexChange:
        """Who has entered and left the index after a version; after 0, who is in it."""
        ...

    async def shrunk(self, follower_count: int, limit: int) -> list[ShrunkAuthor]:
        """The first `limit` authors in the index with fewer followers, those with the fewest first."""
        ...


class PulledAuthors:
    """Decides which authors are pulled, and tells of the index of them.

    An author stays in the index whatever becomes of their followers, or of the threshold, until somebody who has brought
    the posts that were not pushed to all who would have to fetch them lets them leave.
    """

    def __init__(self, store: PulledAuthorStore) -> None:
        self._store = store

    async def classify(self, author_ids: Sequence[int], threshold: int) -> list[Decision]:
        """Decide about authors, one decision for each distinct id, in the order asked.

        Pulled are those in the index, and those with at least `threshold` followers, who are in it when this returns; of
        the deleted only those in the index.
        """
        asked = list(dict.fromkeys(author_ids))
        if not asked:
            return []
        decided = {decision.author_id: decision for decision in await self._store.decide(asked)}
        new = [
            decision.author_id
            for decision in decided.values()
            if not decision.pulled and not decision.deleted and decision.follower_count >= threshold
        ]
        if new:
            await self._store.enter(new)
        decided |= {author_id: decided[author_id]._replace(pulled=True) for author_id in new}
        return [decided[author_id] for author_id in asked]

    async def leave(self, author_id: int, sequence: int) -> bool:
        """Let an author leave the index; whether they did.

        They stay where it has been decided since `sequence` was read that they are pulled: a post of theirs may have been
        left to those who read.
        """
        return await self._store.leave(author_id, sequence)

    async def changes_since(self, version: int) -> IndexChange:
        """Who has entered and left the index after a version of it; after 0: everybody who is in it."""
        return await self._store.changes_since(version)

    async def shrunk(self, follower_count: int, limit: int) -> list[ShrunkAuthor]:
        """At most `limit` authors in the index with fewer than `follower_count` followers, those with the fewest first."""
        # Nobody has fewer than none; where everybody is pulled, the index is as long as there are authors.
        return await self._store.shrunk(follower_count, limit) if follower_count else []
