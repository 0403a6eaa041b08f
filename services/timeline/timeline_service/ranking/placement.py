"""One greedy arrangement that keeps all place rules at once, as far as they can be kept.

Posts stand in a line, the best first, and each place is given to the first post in the line that keeps all rules there.
Where none does, the rule that is named last gives way first:

1. No hidden post comes before one that is not.
2. Guaranteed posts are in time. A place is *due* when the posts that are guaranteed one need all that are left.
3. No run of an author is too long.
4. No window has too many posts of head accounts.

So a rule is broken at a place only where nothing that could still stand there would keep it, given what stands above and
what has been promised: that is what "as long as there are others" means. Nobody looks further ahead, because it would
push good posts down for the sake of the far end. What has been promised is looked ahead for: head accounts do not take
places that guaranteed posts of other head accounts will need, and nobody has a run that the last guaranteed post
would have to make too long.
"""

from collections.abc import Sequence
from typing import NamedTuple

from timeline_service.ranking.line import Line
from timeline_service.ranking.rules.guaranteed_places import Promises
from timeline_service.ranking.rules.head_share import HeadWindow
from timeline_service.ranking.rules.runs import Run

_KEPT = ((True, True), (True, False), (False, False))
"""Whether runs, and whether the head accounts' share, are kept: what is tried, one after the other.

Where no run can be kept short only one author is left, and the share makes no difference.
"""


class _Lane(NamedTuple):
    """Those in the line for whom the same rules matter."""

    line: Line
    of_heads: bool
    guaranteed: bool


class Placement:
    """Gives away places, from the top down. Posts are told by their rank in the line, 0 the best."""

    def __init__(
        self,
        authors: Sequence[int],
        of_heads: Sequence[bool],
        guaranteed: Sequence[bool],
        *,
        promises: Promises,
        run: Run,
        window: HeadWindow,
    ) -> None:
        """Of each rank: its author, whether that is a head account, and whether it is guaranteed a place."""
        self._authors, self._of_heads, self._guaranteed = authors, of_heads, guaranteed
        self._promises, self._run, self._window = promises, run, window
        self.ranks: list[int] = []
        """Who has a place, from the top down."""
        self.held_by_run: list[int] = []
        """Who was passed over because of the author's own posts above."""
        self.held_by_share: list[int] = []
        """Who was passed over because of the head accounts' posts above."""
        # Down to which rank posts were passed over: of an author; of head accounts that are not guaranteed, and are.
        self._passed_authors: dict[int, int] = {}
        self._passed_heads = [-1, -1]

    def fill(self, ranks: range) -> None:
        """Give the next places to these, each one."""
        lanes = self._lined_up(ranks)
        while lanes:
            if len(lanes) == 1 and (alike := lanes[0].line.rest_of_one()):
                # Nothing is left to choose from, and this may be most of the line.
                for rank in alike:
                    self._place(rank)
                return
            rank, line = self._next(lanes)
            if not line.take(rank):
                lanes = [lane for lane in lanes if lane.line is not line]
            self._place(rank)

    def _lined_up(self, ranks: range) -> Sequence[_Lane]:
        of_heads, guaranteed = self._of_heads, self._guaranteed
        members: dict[tuple[bool, bool], list[int]] = {}
        for rank in ranks:
            members.setdefault((of_heads[rank], guaranteed[rank]), []).append(rank)
        return [_Lane(Line(lane, self._authors), *kind) for kind, lane in members.items()]

    def _next(self, lanes: Sequence[_Lane]) -> tuple[int, Line]:
        """The first in the line that keeps all rules, or the most important ones that can be kept."""
        closed = foreseen = self._run.closed
        if self._promises.authors:
            place = len(self.ranks)
            if self._promises.due(place):
                lanes = [lane for lane in lanes if lane.guaranteed]
            elif self._run.would_be_too_long(last := self._promises.last(place)):
                foreseen = last
        for keep_runs, keep_share in _KEPT:
            if not keep_runs:
                closed = foreseen = None
            rank, line = self._first(lanes, closed, foreseen, keep_share)
            if line is not None:
                if foreseen is not None or self._window.is_spoken_for:
                    self._note_passed(rank, foreseen, keep_share)
                return rank, line
        raise AssertionError("whoever is in a line keeps no rules at all")

    def _first(
        self, lanes: Sequence[_Lane], closed: int | None, foreseen: int | None, keep_share: bool
    ) -> tuple[int, Line | None]:
        """The first of all lanes, without the author `closed`, or `foreseen` where it is not guaranteed a place."""
        best, chosen = len(self._authors), None
        for line, of_heads, guaranteed in lanes:
            if keep_share and of_heads and (self._window.is_full if guaranteed else self._window.is_spoken_for):
                continue
            rank = line.first(closed if guaranteed else foreseen)
            if rank < best:
                best, chosen = rank, line
        return best, chosen

    def _note_passed(self, rank: int, author: int | None, share_is_kept: bool) -> None:
        """Note down to where in the line an author, and head accounts, were held back when this one got a place."""
        if author is not None:
            self._passed_authors[author] = max(self._passed_authors.get(author, -1), rank)
        if share_is_kept and self._window.is_spoken_for:
            self._passed_heads[False] = max(self._passed_heads[False], rank)
            if self._window.is_full:
                self._passed_heads[True] = max(self._passed_heads[True], rank)

    def _place(self, rank: int) -> None:
        author, is_head, is_guaranteed = self._authors[rank], self._of_heads[rank], self._guaranteed[rank]
        if self._passed_authors.get(author, -1) > rank:
            self.held_by_run.append(rank)
        if is_head and self._passed_heads[is_guaranteed] > rank:
            self.held_by_share.append(rank)
        if is_guaranteed:
            self._promises.authors.discard(author)
        self._run.add(author)
        self._window.add(is_head, reserved=is_head and is_guaranteed)
        self.ranks.append(rank)
