"""A page in the making: entries are hydrated, and those that may be shown are put into it."""

from collections.abc import Sequence
from typing import Generic

from feedkit.errors import FeedError
from feedkit.errors import Unavailable as UnavailableError

from timeline_service.entries import Entry
from timeline_service.hydration import MOST_AT_ONCE, Hydrator, PostT, Shown, Unavailable
from timeline_service.source import NOT_NOW

FEW_AT_ONCE = 20
"""How many posts cost hardly more to hydrate than one."""


class Draft(Generic[PostT]):
    """A page for a viewer, of `size` posts at most."""

    def __init__(self, hydrator: Hydrator[PostT], viewer_id: int, size: int) -> None:
        self._hydrator = hydrator
        self._viewer_id = viewer_id
        self._size = size
        self._rounds = 0
        self.posts: list[PostT] = []
        self.entries: list[Entry] = []
        """Those that `posts` are of."""
        self.left_out: set[int] = set()
        """Authors who are withheld altogether."""
        self.failure: FeedError | None = None
        """Why it cannot be known of the next entry whether it may be shown."""

    @property
    def lacking(self) -> int:
        """How many posts the page lacks."""
        return self._size - len(self.posts)

    @property
    def wanted(self) -> int:
        """How many entries to hydrate next: where much is withheld, much more will be, so ever more than the page lacks."""
        return min(max(self.lacking, FEW_AT_ONCE if self._rounds else 1) << self._rounds, MOST_AT_ONCE)

    async def hydrate(self, entries: Sequence[Entry]) -> int:
        """Put those of some entries into the page that may be shown, as far as it lacks posts.

        How many of them are settled: in the page, or withheld. The next one then is not known of, which is the `failure`,
        or not wanted.
        """
        if not entries:
            return 0
        self._rounds += 1
        try:
            outcomes = await self._hydrator.hydrate(self._viewer_id, entries)
        except NOT_NOW as error:
            self.failure = error
            return 0
        for place, (entry, outcome) in enumerate(zip(entries, outcomes, strict=True)):
            if entry.author_id in self.left_out:
                continue
            if isinstance(outcome, Unavailable):
                self.failure = UnavailableError.of_dependency(outcome.dependency)
                return place
            if isinstance(outcome, Shown):
                if not self.lacking:
                    return place
                self.posts.append(outcome.post)
                self.entries.append(entry)
            elif outcome.with_its_author:
                self.left_out.add(entry.author_id)
        return len(entries)
