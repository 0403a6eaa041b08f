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

from feedkit.errors import FeedError, Internal

from timeline_service.entries import Entry
from timeline_service.source import BEGINNING, NOT_NOW, Source, Stretch


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
        self._left_out: set[int] = set()
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
        return [*map(Entry, *await self.take_columns(count))]

    async def take_columns(self, count: int) -> tuple[list[int], list[int]]:
        """The same as `take`, as post ids and author ids: of hundreds of entries few are looked at one by one."""
        await self._read_on(count)
        post_ids, frontier = self._newest_first()[:count], self.frontier
        while post_ids and post_ids[-1] < frontier:
            del post_ids[-1]
        return post_ids, [*map(self._read.pop, post_ids)]

    def leave_out(self, author_id: int) -> None:
        """Emit nothing more of an author, of whom everything is withheld."""
        if author_id in self._left_out:
            return
        self._left_out.add(author_id)
        self._read = {post_id: author for post_id, author in self._read.items() if author != author_id}
        for progress in self._progress:
            progress.source.leave_out(author_id)

    async def _read_on(self, count: int) -> None:
        """Read until `count` entries are settled, or all that there are, or a source fails."""
        while self.failure is None:
            known = self._newest_first()
            # The entries wanted lie at or above this one, whatever turns up between those known already.
            lowest = known[count - 1] if len(known) >= count else BEGINNING
            short = [progress for progress in self._progress if progress.complete_to > lowest]
            if not short:
                return
            asking = [progress for progress in short if not self._peek(progress, known, count)]
            if len(asking) < len(short):
                # More is known now, so that perhaps less has to be asked for.
                continue
            if len(asking) == 1:
                # The usual case by far. It needs no task of its own.
                await self._ask(asking[0], known, count)
                continue
            async with asyncio.TaskGroup() as reads:
                for progress in asking:
                    reads.create_task(self._ask(progress, known, count))

    def _peek(self, progress: _Progress, known: Sequence[int], count: int) -> bool:
        """Whether a source could be read on without asking anybody."""
        stretch = progress.source.peek(progress.complete_to, _wanted(progress, known, count))
        if stretch is not None:
            self._add(progress, stretch)
        return stretch is not None

    async def _ask(self, progress: _Progress, known: Sequence[int], count: int) -> None:
        try:
            self._add(progress, await progress.source.read(progress.complete_to, _wanted(progress, known, count)))
        except NOT_NOW as error:
            self.failure = error

    def _add(self, progress: _Progress, stretch: Stretch) -> None:
        position, complete_to = progress.complete_to, stretch.complete_to
        if not BEGINNING <= complete_to < position:
            raise Internal(f"{type(progress.source).__name__}: read from {position}, complete to {complete_to}")
        progress.complete_to = complete_to
        for post_id, author_id in zip(stretch.post_ids, stretch.author_ids, strict=True):
            # A source that says more than it promises must not break the order of what is emitted.
            if complete_to <= post_id < position and author_id in self._authors and author_id not in self._left_out:
                self._read[post_id] = author_id

    def _newest_first(self) -> list[int]:
        return sorted(self._read, reverse=True)


def _wanted(progress: _Progress, known: Sequence[int], count: int) -> int:
    """How many entries a source is to return: what is known above where it is read on counts towards those wanted."""
    return count - sum(post_id >= progress.complete_to for post_id in known)
