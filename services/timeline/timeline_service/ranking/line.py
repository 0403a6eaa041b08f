"""A line of posts that wait for places, the best first."""

from collections import deque
from collections.abc import Sequence


class Line:
    """Posts by *rank*: 0 is the best of all. Tells the first whose author is not a certain one; in all, in linear time.

    What has been passed over waits apart, and is of one author: the next one is looked for behind it only while that author
    has to wait.
    """

    def __init__(self, ranks: Sequence[int], authors: Sequence[int]) -> None:
        """`ranks` ascend, `authors` has one of every rank that there is."""
        self._end = len(authors)
        self._ranks = [*ranks, self._end]
        self._authors = authors
        self._next = 0
        self._waiting: deque[int] = deque()

    def first(self, closed: int | None) -> int:
        """The best rank that is not of the author `closed`; a rank that does not exist where there is none."""
        waiting, authors = self._waiting, self._authors
        if waiting and authors[waiting[0]] != closed:
            return waiting[0]
        rank = self._ranks[self._next]
        while rank < self._end and authors[rank] == closed:
            waiting.append(rank)
            self._next += 1
            rank = self._ranks[self._next]
        return rank

    def take(self, rank: int) -> bool:
        """Take out what `first` has returned last; whether anybody is left."""
        if self._waiting and self._waiting[0] == rank:
            self._waiting.popleft()
        else:
            self._next += 1
        return bool(self._waiting) or self._ranks[self._next] != self._end

    def rest_of_one(self) -> Sequence[int]:
        """All that are left, where it is known already that they are of one author; otherwise none."""
        return self._waiting if self._ranks[self._next] == self._end else ()
