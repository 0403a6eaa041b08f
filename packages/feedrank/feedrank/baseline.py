"""The logistic baseline: a model that nobody trained, and everybody can read.

The probability of a signal is `1 / (1 + exp(-z))`, where `z` is its bias plus, over all features, its coefficient times
how far the feature is from its neutral value. So the bias is the log odds for a post of which nothing is known, and a
coefficient of 0.7 doubles the odds for each step of 1 of its feature.
"""

import numpy as np
from numpy.typing import NDArray

from feedrank import effects
from feedrank.features import FEATURES, NEUTRAL
from feedrank.logistic import probabilities

VERSION = "baseline-1"

# Chances for a post of which nothing is known: 4 % like, 1 % reply, 1 % repost, 25 % dwell, 0.3 % negative.
BIAS = (-3.18, -4.6, -4.6, -1.1, -5.8)
"""For each signal of PREDICTED."""

# fmt: off
COEFFICIENTS = {
    #                     like   reply  repost dwell  negative
    "age":               (-0.35, -0.50, -0.45, -0.15,  0.00),  # talk moves on first, looking last
    "affinity":          ( 0.70,  0.60,  0.60,  0.40, -0.60),  # the strongest of all
    "author_engagement": ( 0.50,  0.30,  0.40,  0.20, -0.10),
    "author_negative":   (-0.15, -0.10, -0.15, -0.10,  0.80),
    "impressions":       ( 0.00,  0.00,  0.00,  0.00,  0.00),  # told by the rates already
    "likes":             ( 0.10,  0.00,  0.05,  0.05,  0.00),  # what is popular, beyond how good it is
    "reposts":           ( 0.05,  0.00,  0.15,  0.05,  0.00),
    "replies":           ( 0.00,  0.20,  0.00,  0.05,  0.00),
    "engagement":        ( 0.60,  0.30,  0.50,  0.25, -0.10),
    "velocity":          ( 0.15,  0.15,  0.20,  0.10,  0.00),
    "dwell":             ( 0.10,  0.15,  0.05,  0.60, -0.15),
    "media":             ( 0.25, -0.20,  0.10,  0.30,  0.00),
    "reply":             (-0.30,  0.30, -0.60, -0.15,  0.10),  # who is in the conversation goes on with it
    "own":               (-1.50, -0.50, -2.50, -1.00, -3.00),
    "favourite":         ( 0.60,  0.50,  0.40,  0.50, -0.70),
    "pulled":            ( 0.00, -0.30,  0.10,  0.00,  0.10),  # the famous are seldom talked with
    "seen":              (-1.20, -1.20, -1.20, -1.50, -0.50),  # whatever it was, it happened at the first sight
}
# fmt: on
"""For each feature: its coefficient for each signal of PREDICTED."""

_BIAS = np.array(BIAS, np.float32)
_COEFFICIENTS = np.array([COEFFICIENTS[feature] for feature in FEATURES], np.float32)


class Baseline:
    """The `Model` of the coefficients above."""

    version = VERSION
    trained_at_ms = 0

    def predict(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, 5): the probability of each signal of PREDICTED, for a matrix of features."""
        return probabilities(np.asarray(_BIAS + (matrix - NEUTRAL) @ _COEFFICIENTS, np.float32))

    def effects(self, rows: NDArray[np.float32], weights: NDArray[np.floating]) -> NDArray[np.float32]:
        """(k, F): by how much each feature moved each score; see `effects.by_substitution`."""
        return effects.by_substitution(self.predict, NEUTRAL, rows, weights)
