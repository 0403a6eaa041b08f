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
from dataclasses import dataclass, field
from typing import Generic

from timeline_service.drafts import Draft
from timeline_service.entries import Entry
from timeline_service.hydration import Hydrator, PostT
from timeline_service.merge import Merge
from timeline_service.source import Source
from timeline_service.viewer import Viewer


@dataclass(frozen=True, slots=True)
class Page(Generic[PostT]):
    """A page of a home timeline."""

    posts: list[PostT]
    """Newest first. Fewer than asked for does not mean the end."""
    next_position: int | None
    """Where the next page begins; None at the end."""
    entries: Sequence[Entry] = field(default=(), compare=False)
    """Those that the posts are of."""


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
        draft = Draft(self._hydrator, viewer.id, size)
        # Everything from here up is in the page, or is withheld.
        reached = position
        waiting: list[Entry] = []
        for _ in range(self._rounds):
            wanted = draft.wanted
            waiting += await merge.take(wanted + 1 - len(waiting))
            exhausted = len(waiting) <= wanted
            if settled := await draft.hydrate(waiting[:wanted]):
                reached = waiting[settled - 1].post_id
            for author_id in draft.left_out:
                merge.leave_out(author_id)
            waiting = [entry for entry in waiting[settled:] if entry.author_id not in draft.left_out]
            if not draft.lacking or draft.failure or exhausted:
                break
        failure = draft.failure
        # What was read ahead may have been of an author who was left out since.
        if not (waiting := waiting or await merge.take(1)):
            reached, failure = merge.frontier, merge.failure
            if merge.ended:
                return Page(draft.posts, None, draft.entries)
        if failure and not draft.posts:
            raise failure
        return Page(draft.posts, reached, draft.entries)
