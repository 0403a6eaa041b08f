"""Scores: what a viewer is predicted to do, weighed."""

from collections.abc import Sequence

import numpy as np
from feedrank.signals import PREDICTED
from numpy.typing import ArrayLike, NDArray


def score(predictions: ArrayLike, weights: Sequence[float]) -> NDArray[np.float64]:
    """The weighted sums (n,) of `predictions` (n, PREDICTED), with a weight for each signal, in the order of PREDICTED.

    A score may be negative, since the weight of `negative` usually is. Raises ValueError where the shapes do not fit, or a
    score is no finite number.
    """
    table = np.asarray(predictions, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(PREDICTED) or len(weights) != len(PREDICTED):
        raise ValueError(f"{len(weights)} weights for predictions of shape {table.shape}, {len(PREDICTED)} signals")
    scores = table @ np.asarray(weights, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ValueError("a score is no finite number")
    return scores
