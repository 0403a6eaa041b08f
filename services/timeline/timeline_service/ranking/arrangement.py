"""The arrangement: from predictions to an order of the candidates, and to how it came about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import ArrayLike, NDArray

from timeline_service.ranking.rules import Rules
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
    order = _best_first(scores)
    scored_places = places = _places(order)
    steps: list[Step] = []
    counting = scores
    for rule in rules.of_scores:
        factors = rule.factors(candidates, order)
        counting = discounted(counting, factors)
        order = _best_first(counting)
        before, places = places, _places(order)
        meant = ((factors < 1) & (places > before)) | ((factors > 1) & (places < before))
        if meant.any():
            steps.append(Step(rule.name, before, places, meant))
    return Order(rows=order, scores=scores, scored_places=scored_places, steps=steps)


def _best_first(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    # Rows are newest first, and the sort is stable.
    return np.argsort(-scores, kind="stable")


def _places(order: NDArray[np.intp]) -> NDArray[np.intp]:
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places
