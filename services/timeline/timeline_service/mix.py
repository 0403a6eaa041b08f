"""The mix: pages of a home timeline, from sources to posts.

Entries are merged and filtered (`merge`), the first of them hydrated, and what hydration withholds is replaced by the
entries that follow, until the page is full. Of an author who is withheld altogether, as one who is suspended, nothing more
is even looked at, so that not even thousands of their posts in a row make a page short. Three promises decide the rest:

- A page stops before the first post of which is not known whether it may be shown. Going past it would lose it.
- A page's cursor is the position down to which everything was returned, or is withheld for good. So it never repeats,
  and a short page loses nothing.
- The end is said exactly at the end. One entry more than is wanted is read ahead, so that a full page knows.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple

from feedkit.errors import FeedError
from feedkit.errors import Unavailable as UnavailableError

from timeline_service.entries import Entry
from timeline_service.hydration import MOST_AT_ONCE, Hydrator, PostT, Shown, Unavailable
from timeline_service.merge import Merge
from timeline_service.source import NOT_NOW, Source
from timeline_service.viewer import Viewer

FEW_AT_ONCE = 20
"""How many posts cost hardly more to hydrate than one."""


class Page(NamedTuple, Generic[PostT]):
    """A page of a home timeline."""

    posts: list[PostT]
    """Newest first. Fewer than asked for does not mean the end."""
    next_position: int | None
    """Where the next page begins; None at the end."""


class Mix(Generic[PostT]):
    """Makes pages of the LATEST view, in which no source is optional."""

    def __init__(self, hydrator: Hydrator[PostT], *, hydration_rounds: int) -> None:
        """`hydration_rounds`, 1 or more, bound the hydration calls for one page."""
        self._hydrator = hydrator
        self._rounds = hydration_rounds

    async def page(self, viewer: Viewer, sources: Sequence[Source], position: int, size: int) -> Page[PostT]:
        """Up to `size` posts strictly below `position`, from these sources.

        Where something fails, and where too much was withheld, the page is what is certain so far. Raises what failed,
        one of source.NOT_NOW, where that is nothing.
        """
        merge = Merge(sources, position, viewer.authors)
        draft = _Draft[PostT](position, size)
        waiting: list[Entry] = []
        for completed in range(self._rounds):
            # Where much is withheld, much more will be: each round asks for more than the page lacks, up to what it may.
            wanted = min(max(draft.lacking, FEW_AT_ONCE if completed else 1) << completed, MOST_AT_ONCE)
            waiting += await merge.take(wanted + 1 - len(waiting))
            exhausted = len(waiting) <= wanted
            await self._hydrate(viewer, waiting[:wanted], draft)
            for author_id in draft.left_out:
                merge.leave_out(author_id)
            waiting = [entry for entry in waiting if draft.still_wants(entry)]
            if not draft.lacking or draft.failure or exhausted:
                break
        # What was read ahead may have been of an author who was left out since.
        if not (waiting := waiting or await merge.take(1)):
            draft.reached, draft.failure = merge.frontier, merge.failure
            if merge.ended:
                return Page(draft.posts, None)
        if draft.failure and not draft.posts:
            raise draft.failure
        return Page(draft.posts, draft.reached)

    async def _hydrate(self, viewer: Viewer, entries: Sequence[Entry], draft: "_Draft[PostT]") -> None:
        if not entries:
            return
        try:
            outcomes = await self._hydrator.hydrate(viewer.id, entries)
        except NOT_NOW as error:
            draft.failure = error
            return
        for entry, outcome in zip(entries, outcomes, strict=True):
            if entry.author_id not in draft.left_out:
                if isinstance(outcome, Unavailable):
                    draft.failure = UnavailableError.of_dependency(outcome.dependency)
                    return
                if isinstance(outcome, Shown):
                    if not draft.lacking:
                        return
                    draft.posts.append(outcome.post)
                elif outcome.with_its_author:
                    draft.left_out.add(entry.author_id)
            draft.reached = entry.post_id


class _Draft(Generic[PostT]):
    """A page in the making."""

    def __init__(self, position: int, size: int) -> None:
        self._size = size
        self.posts: list[PostT] = []
        self.reached = position
        """Everything from here up is in the page, or is withheld."""
        self.left_out: set[int] = set()
        """Authors who are withheld altogether."""
        self.failure: FeedError | None = None
        """Why the page cannot go on below `reached`."""

    def still_wants(self, entry: Entry) -> bool:
        """Whether an entry may have a place further down."""
        return entry.post_id < self.reached and entry.author_id not in self.left_out

    @property
    def lacking(self) -> int:
        """How many posts the page lacks."""
        return self._size - len(self.posts)
