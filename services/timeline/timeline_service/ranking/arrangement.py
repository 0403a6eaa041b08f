"""The arrangement: from predictions to an order of the candidates, and to how it came about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import ArrayLike, NDArray

from timeline_service.ranking.placement import Placement
from timeline_service.ranking.rules import Rules
from timeline_service.ranking.rules.guaranteed_places import Promises
from timeline_service.ranking.rules.head_share import HeadWindow
from timeline_service.ranking.rules.runs import Run
from timeline_service.ranking.rules.score_rule import discounted
from timeline_service.ranking.scoring import score


class Move(NamedTuple):
    """How a rule moved a post."""

    rule: str
    """Its name."""
    from_place: int
    """The place that the post had before the rule; 0: at the top."""
    to_place: int
    """The place that it had after it."""


class Step(NamedTuple):
    """One rule, applied to all candidates."""

    rule: str
    """Its name."""
    before: NDArray[np.intp]
    """(n,) The place of each row before."""
    after: NDArray[np.intp]
    """(n,) The place of each row after."""
    meant: NDArray[np.bool_]
    """(n,) Which rows the rule meant to move, and did; the others only made way, or closed up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order of candidates, and how it came about. A *row* is a candidate's index."""

    rows: NDArray[np.intp]
    """(n,) The rows, from the top down."""
    scores: NDArray[np.float64]
    """(n,) The score of each row, before all rules; 0 in LATEST."""
    scored_places: NDArray[np.intp]
    """(n,) The place of each row by score alone."""
    steps: Sequence[Step]
    """The rules that moved anything, in the order in which they were applied."""

    def moves(self, row: int) -> list[Move]:
        """The rules that moved a candidate, in the order in which they were applied."""
        return [Move(step.rule, int(step.before[row]), int(step.after[row])) for step in self.steps if step.meant[row]]


def rank(candidates: Candidates, predictions: ArrayLike, weights: Sequence[float], rules: Rules) -> Order:
    """The order of the ranked view, by `predictions` (n, PREDICTED) and the weight of each signal.

    Where all weights are 0 nothing is predicted to matter: the order is LATEST, and no rule is applied. Raises ValueError
    as `score` does.
    """
    scores = score(predictions, weights)
    return arrange(candidates, scores, rules) if any(weights) else latest(candidates)


def latest(candidates: Candidates) -> Order:
    """Newest first, which is how candidates come."""
    rows = np.arange(len(candidates))
    return Order(rows=rows, scores=np.zeros(len(rows)), scored_places=rows, steps=())


def arrange(candidates: Candidates, scores: NDArray[np.float64], rules: Rules) -> Order:
    """Order candidates by `scores` (n,) and rules; of two equal scores the newer post comes first."""
    journal = _Journal(_best_first(scores))
    scored_places = journal.places
    _apply_score_rules(candidates, scores, rules, journal)
    _apply_place_rules(candidates, rules, journal)
    return Order(rows=journal.rows, scores=scores, scored_places=scored_places, steps=journal.steps)


class _Journal:
    """The order as it is so far, and how it came about."""

    def __init__(self, rows: NDArray[np.intp]) -> None:
        self.rows = rows
        self.places = _places(rows)
        self.steps: list[Step] = []

    def note(self, rule: str, rows: NDArray[np.intp], lowered: NDArray[np.bool_], lifted: NDArray[np.bool_]) -> None:
        """Note a rule that makes the order `rows`, and which rows (n,) it means to move down and up."""
        before, after = self.places, _places(rows)
        self.rows, self.places = rows, after
        if not np.array_equal(before, after):
            meant = (lowered & (after > before)) | (lifted & (after < before))
            self.steps.append(Step(rule, before, after, meant))


def _apply_score_rules(candidates: Candidates, scores: NDArray[np.float64], rules: Rules, journal: _Journal) -> None:
    for rule in rules.of_scores:
        factors = rule.factors(candidates, journal.rows)
        scores = discounted(scores, factors)
        journal.note(rule.name, _best_first(scores), factors < 1, factors > 1)


def _apply_place_rules(candidates: Candidates, rules: Rules, journal: _Journal) -> None:
    """Apply the place rules one more at a time, so that it shows what each of them adds.

    The last arrangement keeps all of them; see `placement`. Whoever keeps a rule anyway is not arranged for it.
    """
    none = np.zeros(len(candidates), dtype=np.bool_)
    line, shown, guaranteed = journal.rows, len(candidates), none
    if rules.hidden and (hidden := rules.hidden.rows(candidates)).any():
        line, shown = _stably(line, hidden[line]), int(np.count_nonzero(~hidden))
        journal.note(rules.hidden.name, line, hidden, none)
    if rules.guaranteed_places and (guaranteed := rules.guaranteed_places.rows(candidates, journal.rows)).any():
        first = _with_guaranteed(guaranteed[line], rules.guaranteed_places.within)
        journal.note(rules.guaranteed_places.name, _stably(line, ~first), none, guaranteed)
    posts = _Line(candidates, line, shown, guaranteed, rules)
    if rules.runs and not rules.runs.is_kept(candidates.author_ids[journal.rows]):
        placement = posts.placed(with_share=False)
        journal.note(rules.runs.name, line[placement.ranks], posts.rows(placement.held_by_run), none)
    if rules.head_share and not rules.head_share.is_kept(candidates.is_pulled[journal.rows]):
        placement = posts.placed(with_share=True)
        journal.note(rules.head_share.name, line[placement.ranks], posts.rows(placement.held_by_share), none)


def _with_guaranteed(guaranteed: NDArray[np.bool_], within: int) -> NDArray[np.bool_]:
    """Which of a line (n,) have the first places where only guaranteed ones are preferred."""
    others = within - np.count_nonzero(guaranteed)
    return guaranteed | (np.cumsum(~guaranteed) <= others)


class _Line:
    """The candidates in the line for places."""

    def __init__(
        self,
        candidates: Candidates,
        line: NDArray[np.intp],
        shown: int,
        guaranteed: NDArray[np.bool_],
        rules: Rules,
    ) -> None:
        self._candidates, self._line, self._shown, self._guaranteed = candidates, line, shown, guaranteed
        self._rules = rules

    def placed(self, *, with_share: bool) -> Placement:
        """All of them, in an arrangement that keeps all rules; the head accounts' share only if wanted."""
        count, line, rules = len(self._line), self._line, self._rules
        authors = self._candidates.author_ids[line].tolist()
        of_heads = self._candidates.is_pulled[line].tolist() if with_share else [False] * count
        guaranteed = self._guaranteed[line].tolist()
        promised = [rank for rank in range(count) if guaranteed[rank]]
        within = rules.guaranteed_places.within if rules.guaranteed_places else 0
        share = rules.head_share if with_share and rules.head_share else None
        placement = Placement(
            authors,
            of_heads,
            guaranteed,
            promises=Promises([authors[rank] for rank in promised], within),
            run=Run(rules.runs.most if rules.runs else count + 1),
            window=HeadWindow(
                share.most if share else count + 1,
                min(share.window, count) if share else 1,
                reserved=sum(of_heads[rank] for rank in promised),
            ),
        )
        placement.fill(range(self._shown))
        placement.fill(range(self._shown, count))
        return placement

    def rows(self, ranks: list[int]) -> NDArray[np.bool_]:
        """Which rows (n,) have these places in the line."""
        rows = np.zeros(len(self._line), dtype=np.bool_)
        rows[self._line[ranks]] = True
        return rows


def _best_first(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    # Rows are newest first, and the sort is stable.
    return np.argsort(-scores, kind="stable")


def _stably(rows: NDArray[np.intp], last: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The rows (n,) with some moved behind the others."""
    return np.concatenate((rows[~last], rows[last]))


def _places(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    places = np.empty_like(rows)
    places[rows] = np.arange(len(rows))
    return places
