"""Which authors are pulled: pushing their posts to all of their followers is too dear, so those who read fetch them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Decision(NamedTuple):
    """Whether an author is pulled."""

    author_id: int
    pulled: bool
    follower_count: int


class IndexChange(NamedTuple):
    """What has changed in the index since a version of it that a reader knows."""

    version: int
    """The version of the index with this change."""
    entered_author_ids: Sequence[int]
    """In the order in which they entered."""


class PulledAuthorStore(Protocol):
    """Where the index of pulled authors is kept. Each call is one round trip."""

    async def decide(self, author_ids: Sequence[int]) -> list[Decision]:
        """Count the followers of some distinct authors, and call those pulled who are in the index, which notes that."""
        ...

    async def enter(self, author_ids: Sequence[int]) -> None:
        """Let authors into the index, together with a new version of it; for those who are in it, note the decision."""
        ...

    async def entered_since(self, version: int) -> IndexChange:
        """The authors who entered after a version."""
        ...


class PulledAuthors:
    """Decides which authors are pulled, and tells of the index of them.

    An author stays in the index whatever becomes of their followers, or of the threshold: some of their posts were not
    pushed, and whoever reads has to fetch them.
    """

    def __init__(self, store: PulledAuthorStore) -> None:
        self._store = store

    async def classify(self, author_ids: Sequence[int], threshold: int) -> list[Decision]:
        """Decide about authors, one decision for each distinct id, in the order asked.

        Pulled are those in the index, and those with at least `threshold` followers, who are in it when this returns.
        """
        asked = list(dict.fromkeys(author_ids))
        if not asked:
            return []
        decided = {decision.author_id: decision for decision in await self._store.decide(asked)}
        new = [d.author_id for d in decided.values() if not d.pulled and d.follower_count >= threshold]
        if new:
            await self._store.enter(new)
        decided |= {author_id: decided[author_id]._replace(pulled=True) for author_id in new}
        return [decided[author_id] for author_id in asked]

    async def entered_since(self, version: int) -> IndexChange:
        """Who has entered the index after a version of it; after 0: everybody who is in it."""
        return await self._store.entered_since(version)
