"""Why a post is where it is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from feedrank.features import DEFINITIONS, FEATURES
from feedrank.signals import PREDICTED
from numpy.typing import NDArray

from timeline_service.origins import Origin
from timeline_service.ranking.arrangement import Move

MOST_FACTORS = 5

_TOLD = np.array([feature.told for feature in DEFINITIONS])


class Factor(NamedTuple):
    """A feature that weighed in a prediction."""

    feature: str
    """One of `feedrank.features.FEATURES`."""
    value: float
    """In the unit that is told there."""
    effect: float
    """By how much it moved the score from what it is without knowing the feature."""


class Prediction(NamedTuple):
    """What a viewer was predicted to do."""

    signal: str
    """One of `feedrank.signals.PREDICTED`."""
    probability: float
    weight: float
    """Of the signal in the score."""


class Reason(NamedTuple):
    """What was predicted of a post, and why; by default nothing was."""

    factors: Sequence[Factor] = ()
    """The weightiest first, MOST_FACTORS at most."""
    predictions: Sequence[Prediction] = ()
    """One for each signal."""
    score: float = 0.0
    """The weighted sum of the predictions."""


class Explanation(NamedTuple):
    """How a post came to be where it is. In LATEST it has an origin and a place, and nothing else is to be said."""

    origin: Origin
    place: int
    """The place that it has, 0: at the top: of the order, or, in LATEST, of the page."""
    scored_place: int
    """The place by score alone."""
    moves: Sequence[Move] = ()
    """The rules that moved it, in the order in which they were applied."""
    reason: Reason = Reason()


def reasons(
    rows: NDArray[np.float32],
    effects: NDArray[np.floating],
    predictions: NDArray[np.floating],
    weights: Sequence[float],
) -> list[Reason]:
    """The reasons for the scores of some posts.

    `rows` and `effects` (k, F) are the value and effect of each feature, `predictions` (k, PREDICTED) the probabilities.
    """
    told = np.where(_TOLD, effects, 0)
    weightiest = np.argsort(-np.abs(told), axis=1, kind="stable")[:, :MOST_FACTORS]
    scores = predictions.astype(np.float64) @ np.asarray(weights)
    return [
        Reason(
            [Factor(FEATURES[at], float(row[at]), float(effect[at])) for at in places.tolist() if effect[at]],
            [Prediction(*one) for one in zip(PREDICTED, chances.tolist(), weights, strict=True)],
            score,
        )
        for row, effect, places, chances, score in zip(
            rows, told, weightiest, predictions, scores.tolist(), strict=True
        )
    ]
