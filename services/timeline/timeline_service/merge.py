"""The merge of several sources into one timeline, newest first, by the rule of completeness:

an entry is emitted only when every source is complete down to it.

The line down to which all are complete is the *frontier*: the highest of the sources' `complete_to`. Whatever has been
read at or above it is settled, since no source can still come up with something in between. Where that is not enough,
the sources that are not complete far enough are read on, all at the same time, and the frontier sinks.

    pushed   5@5000  3@3000  1@1000          limit 3       → 5, 4, 3
    pulled   4@4000  3@3000  2@2000          from 3000:3   → 2, 1

Both have 3; it is emitted once. Were "pushed" complete only to 4000, 3 would wait until it has been read on.
"""

import asyncio
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice

from feedkit.errors import FeedError, Internal

from timeline_service.entries import Entry
from timeline_service.source import BEGINNING, NOT_NOW, Source


@dataclass(slots=True)
class _Progress:
    """How far down a source has been read."""

    source: Source
    complete_to: int


class Merge:
    """One walk down several sources from a position. Lazy: it reads only as far as it is asked to."""

    def __init__(self, sources: Sequence[Source], position: int, authors: Container[int]) -> None:
        """Entries whose author is not among `authors` are dropped as they are read.

        Sources mean to have only those, but some learn late of an unfollow.
        """
        self._authors = authors
        # At first a source is complete to the position itself, at and above which nothing is asked for.
        self._progress = [_Progress(source, position) for source in sources]
        # What has been read and not emitted, post → author. A dict, so that what two sources have is in it once.
        self._read: dict[int, int] = {}
        self.failure: FeedError | None = None
        """Why a source could not be read on, once that has happened; the walk then ends at the frontier."""

    @property
    def frontier(self) -> int:
        """Everything from here up has been read from every source; nothing below is certain."""
        return max((progress.complete_to for progress in self._progress), default=BEGINNING)

    @property
    def ended(self) -> bool:
        """Whether every entry that there is has been emitted."""
        return not self._read and self.frontier == BEGINNING

    async def take(self, count: int) -> list[Entry]:
        """The next entries, newest first: `count` of them, 1 or more, or fewer where the walk ended or a source failed.

        Whoever got fewer has had every entry at or above `frontier`.
        """
        await self._read_on(count)
        frontier = self.frontier
        settled = (post_id for post_id in self._newest_first() if post_id >= frontier)
        return [Entry(post_id, self._read.pop(post_id)) for post_id in islice(settled, count)]

    async def _read_on(self, count: int) -> None:
        """Read until `count` entries are settled, or all that there are, or a source fails."""
        while self.failure is None:
            known = self._newest_first()
            # The entries wanted lie at or above this one, whatever turns up between those known already.
            lowest = known[count - 1] if len(known) >= count else BEGINNING
            short = [progress for progress in self._progress if progress.complete_to > lowest]
            if not short:
                return
            if len(short) == 1:
                await self._read_source(short[0], known, count)
                continue
            async with asyncio.TaskGroup() as reads:
                for progress in short:
                    reads.create_task(self._read_source(progress, known, count))

    async def _read_source(self, progress: _Progress, known: Sequence[int], count: int) -> None:
        source, position = progress.source, progress.complete_to
        # As many as may be wanted from below here: what is known above counts towards them.
        limit = count - sum(post_id >= position for post_id in known)
        try:
            post_ids, author_ids, complete_to = await source.read(position, limit)
        except NOT_NOW as error:
            self.failure = error
            return
        if not BEGINNING <= complete_to < position:
            raise Internal(f"{type(source).__name__}: read from {position}, complete to {complete_to}")
        progress.complete_to = complete_to
        self._read.update(
            (post_id, author_id)
            for post_id, author_id in zip(post_ids, author_ids, strict=True)
            # A source that says more than it promises must not break the order of what is emitted.
            if complete_to <= post_id < position and author_id in self._authors
        )

    def _newest_first(self) -> list[int]:
        return sorted(self._read, reverse=True)
