"""One greedy arrangement that keeps all place rules at once, as far as they can be kept.

Posts stand in a line, the best first, and each place is given to the first post in the line that keeps all rules there.
Where none does, rules give way in this order:

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

_KEPT = ((True, True), (True, False), (False, True), (False, False))
"""Whether runs, and whether the head accounts' share, are kept: what is tried, one after the other."""


class _Lane(NamedTuple):
    """Those in the line for whom the same rules matter."""

    line: Line
    of_heads: bool
    guaranteed: bool


class _Choice(NamedTuple):
    """Who gets a place, and which rules that keeps."""

    rank: int
    lane: _Lane
    keeps_runs: bool
    keeps_share: bool


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
        self._lanes: list[_Lane] = []
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
        lanes = self._lanes = self._lined_up(ranks)
        while lanes:
            if len(lanes) == 1 and (alike := lanes[0].line.rest_of_one()):
                # Nothing is left to choose from, and this may be most of the line.
                for rank in alike:
                    self._place(rank)
                return
            place = len(self.ranks)
            choice = self._choice(place)
            choice.lane.line.take(choice.rank)
            if choice.lane.line.is_empty:
                lanes.remove(choice.lane)
            self._note_passed(place, choice)
            self._place(choice.rank)

    def _lined_up(self, ranks: range) -> list[_Lane]:
        of_heads, guaranteed = self._of_heads, self._guaranteed
        members: dict[tuple[bool, bool], list[int]] = {}
        for rank in ranks:
            members.setdefault((of_heads[rank], guaranteed[rank]), []).append(rank)
        return [_Lane(Line(lane, self._authors), *kind) for kind, lane in members.items()]

    def _choice(self, place: int) -> _Choice:
        """The first in the line that keeps all rules, or as many of them as can be kept."""
        return next(choice for kept in _KEPT if (choice := self._first(place, *kept)))

    def _first(self, place: int, keep_runs: bool, keep_share: bool) -> _Choice | None:
        """The first in the line that keeps these rules, and what has been promised."""
        due, window = self._promises.due(place), self._window
        closed, foreseen = (self._run.closed, self._foreseen(place)) if keep_runs else (None, None)
        best, chosen = len(self._authors), None
        for lane in self._lanes:
            if lane.guaranteed:
                if keep_share and lane.of_heads and window.is_full:
                    continue
                rank = lane.line.first(closed)
            elif due or (keep_share and lane.of_heads and window.is_spoken_for):
                continue
            else:
                rank = lane.line.first(foreseen)
            if rank < best:
                best, chosen = rank, lane
        return _Choice(best, chosen, keep_runs, keep_share) if chosen else None

    def _foreseen(self, place: int) -> int | None:
        """The author who may have no post here that is not guaranteed a place, for the sake of runs here and below."""
        last = self._promises.last(place)
        return last if self._run.would_be_too_long(last) else self._run.closed

    def _note_passed(self, place: int, choice: _Choice) -> None:
        """Note down to where posts were passed over, unless it was for what had been promised."""
        if self._promises.due(place):
            return
        if choice.keeps_runs and (author := self._foreseen(place)) is not None:
            self._passed_authors[author] = max(self._passed_authors.get(author, -1), choice.rank)
        if choice.keeps_share:
            if self._window.is_spoken_for:
                self._passed_heads[False] = max(self._passed_heads[False], choice.rank)
            if self._window.is_full:
                self._passed_heads[True] = max(self._passed_heads[True], choice.rank)

    def _place(self, rank: int) -> None:
        author, is_head, is_guaranteed = self._authors[rank], self._of_heads[rank], self._guaranteed[rank]
        if self._passed_authors.get(author, -1) > rank:
            self.held_by_run.append(rank)
        if is_head and self._passed_heads[is_guaranteed] > rank:
            self.held_by_share.append(rank)
        if is_guaranteed:
            self._promises.authors.discard(author)
            self._window.reserved -= is_head
        self._run.add(author)
        self._window.add(is_head)
        self.ranks.append(rank)
