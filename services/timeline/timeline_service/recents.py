"""Recents of pulled authors in the memory of this process, so that one read of an author serves all who follow them.

They are kept for as long as a reader may not know of such an author's new post, counted from the start of their reading.
`fanout` announces new posts; an announcement drops what is kept, and what is being read at that moment. So an author is
read again by the next reader, and the time only matters where an announcement was lost.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from timeline_service.author_posts import AuthorPosts

Read = Callable[[Sequence[int]], Coroutine[None, None, Mapping[int, AuthorPosts]]]
_Reading: TypeAlias = "asyncio.Task[Mapping[int, AuthorPosts]]"


@dataclass(frozen=True, eq=False)
class _Flight:
    """A reading under way, which further readers of the same authors join."""

    began: float
    reading: _Reading


class Recents:
    """The recents of many authors, bounded in time and number."""

    def __init__(self, read: Read, clock: Callable[[], float], *, staleness: float, remembered: int) -> None:
        """`read` gives the lists of authors as far as they can be had now; `clock` gives seconds.

        `staleness` is how many seconds a list is kept, `remembered` how many authors' are.
        """
        self._read = read
        self._clock = clock
        self._staleness = staleness
        self._remembered = remembered
        # In the order in which their readings began to be kept, so the first is the oldest.
        self._kept: dict[int, tuple[float, AuthorPosts]] = {}
        self._flights: dict[int, _Flight] = {}

    def known(self, author_ids: Collection[int]) -> dict[int, AuthorPosts]:
        """Those of the authors' lists that are kept."""
        oldest = self._clock() - self._staleness
        kept = self._kept
        return {
            author_id: held[1]
            for author_id in author_ids
            if (held := kept.get(author_id)) is not None and held[0] > oldest
        }

    async def get(self, author_ids: Sequence[int]) -> dict[int, AuthorPosts]:
        """The authors' lists, as far as they can be had now; readings that are not too old yet are joined."""
        now = self._clock()
        flights: dict[_Flight, list[int]] = {}
        alone: list[int] = []
        for author_id in author_ids:
            flight = self._flights.get(author_id)
            if flight is None or flight.began <= now - self._staleness:
                alone.append(author_id)
            else:
                flights.setdefault(flight, []).append(author_id)
        if alone:
            flights[self._take_off(now, alone)] = alone
        lists: dict[int, AuthorPosts] = {}
        for flight, wanted in flights.items():
            # Shielded, because a reader who gives up must not take the others' reading away.
            read = await asyncio.shield(flight.reading)
            lists |= {author_id: read[author_id] for author_id in wanted if author_id in read}
        return lists

    def changed(self, author_id: int) -> None:
        """Forget an author, who has a new post: nothing that was read, or is being read, serves a later reader."""
        self._kept.pop(author_id, None)
        self._flights.pop(author_id, None)

    def forget_all(self) -> None:
        """Forget all authors, because announcements may have been missed."""
        self._kept.clear()
        self._flights.clear()

    def _take_off(self, now: float, author_ids: Sequence[int]) -> _Flight:
        flight = _Flight(now, asyncio.create_task(self._read(author_ids)))
        self._flights |= dict.fromkeys(author_ids, flight)
        flight.reading.add_done_callback(lambda reading: self._land(flight, author_ids, reading))
        return flight

    def _land(self, flight: _Flight, author_ids: Sequence[int], reading: _Reading) -> None:
        # An error is raised to those who wait for it.
        failed = reading.cancelled() or reading.exception() is not None
        lists = dict[int, AuthorPosts]() if failed else reading.result()
        for author_id in author_ids:
            if self._flights.get(author_id) is flight:
                del self._flights[author_id]
                if author_id in lists:
                    self._keep(author_id, flight.began, lists[author_id])

    def _keep(self, author_id: int, began: float, posts: AuthorPosts) -> None:
        self._kept.pop(author_id, None)
        self._kept[author_id] = (began, posts)
        if len(self._kept) > self._remembered:
            del self._kept[next(iter(self._kept))]
