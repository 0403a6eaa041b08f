"""Training: from examples to the trees of a model.

Examples are split by time and never at random: a model is chosen by what came after what it learned from, and judged by
what came after that, as it will be once it serves. The same examples give the same model, byte for byte.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from feedrank.features import FEATURES
from feedrank.replay import Examples
from feedrank.signals import PREDICTED
from feedrank.trees import Booster, Forest, from_lightgbm

TREES, LEAVES = 40, 15
"""At most so many a signal, each of at most so many leaves: what can be served within a few milliseconds."""
EARLY_STOP = 10
"""After how many trees that do not help on the validation part no more are made."""
TRAINING_PART, VALIDATION_PART = 0.7, 0.15
"""Of the examples, in the order of time; the rest is the test part."""
LEAST_EXAMPLES = 1_000
"""With fewer nothing is trained."""
LEAST_POSITIVES = 30
"""A signal with fewer in the training part is not learned."""
LEAST_POSITIVES_TO_VALIDATE = 10
"""Nor one with fewer in the validation part, where nobody could say when to stop."""

_PARAMETERS: Mapping[str, Any] = {
    "objective": "binary",
    "num_leaves": LEAVES,
    "learning_rate": 0.12,
    "min_data_in_leaf": 40,
    "lambda_l2": 5.0,
    "feature_fraction": 0.9,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "max_bin": 127,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


class TooFewExamples(ValueError):
    """There is not enough to learn from. The message says how much there is, and how much is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Examples by time: what is learned from, what it is chosen and calibrated by, and what it is judged by."""

    training: Examples
    validation: Examples
    test: Examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A model that was trained."""

    forest: Forest
    """The trees of each signal; none: there were too few positives, so its usual rate is predicted for all."""
    calibration: list[tuple[float, float]]
    """Slope and intercept of each signal of PREDICTED."""
    neutral: NDArray[np.float32]
    """(F,): the median of each feature, for `effects`."""


def split(examples: Examples) -> Split:
    """Split examples, which are in the order of time, and keep those of one millisecond together.

    What followed an example may lie beyond the border of its part. Two parts share an outcome only where one viewer was
    shown one post on both sides of it. Raises TooFewExamples.
    """
    times = examples.shown_at_ms
    if len(examples) < LEAST_EXAMPLES:
        raise TooFewExamples(
            f"there are {len(examples):,} impressions of known posts after which a day has passed; "
            f"at least {LEAST_EXAMPLES:,} are needed"
        )
    first, second = (
        np.searchsorted(times, int(times[int(part * len(times))]))
        for part in (TRAINING_PART, TRAINING_PART + VALIDATION_PART)
    )
    parts = [examples.taken(slice(*ends)) for ends in ((0, first), (first, second), (second, None))]
    if not all(len(part) for part in parts):
        raise TooFewExamples("the impressions are of so few different times that they cannot be split by time")
    return Split(training=parts[0], validation=parts[1], test=parts[2])


def train(parts: Split, *, seed: int = 1) -> Trained:
    """Train a model on the training part, stop and calibrate it by the validation part. Raises TooFewExamples.

    A signal with too few positives is predicted to happen as often as it usually does, whatever the post; where that is
    so of all, there is nothing to be learned.
    """
    boosters: list[Booster] = []
    calibration: list[tuple[float, float]] = []
    for column in range(len(PREDICTED)):
        training, validation = parts.training.labels[:, column], parts.validation.labels[:, column]
        if _too_few(training, LEAST_POSITIVES) or _too_few(validation, LEAST_POSITIVES_TO_VALIDATE):
            boosters.append(_UsualRate())
            calibration.append((1.0, _log_odds_of(np.concatenate([training, validation]))))
            continue
        booster = _boosted(parts, column, seed)
        boosters.append(booster)
        raw = booster.predict(parts.validation.features, raw_score=True)
        calibration.append(platt(raw, validation))
    if all(isinstance(booster, _UsualRate) for booster in boosters):
        raise TooFewExamples(_nothing_to_learn(parts))
    return Trained(
        forest=from_lightgbm(boosters),
        calibration=calibration,
        neutral=np.median(parts.training.features, axis=0).astype(np.float32),
    )


def platt(log_odds: NDArray[np.floating[Any]], labels: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and intercept that make log odds say how often something happens, by Platt's method.

    His targets are not 0 and 1 but a little within them, so that the fit is finite whatever the labels are.
    """
    positives = int(labels.sum())
    negatives = len(labels) - positives
    targets = np.where(labels, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    inputs = np.column_stack([np.asarray(log_odds, np.float64), np.ones(len(labels))])
    fitted = np.array([1.0, 0.0])
    for _ in range(50):
        probabilities = 1 / (1 + np.exp(-inputs @ fitted))
        slope = inputs.T @ (probabilities - targets)
        curvature = (inputs * (probabilities * (1 - probabilities))[:, None]).T @ inputs + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, slope)
        fitted -= np.clip(step, -1.0, 1.0)  # a full step may overshoot far from the end
        if np.abs(step).max() < 1e-9:
            break
    # A slope that turns the order around is a chance find.
    return (float(fitted[0]), float(fitted[1])) if fitted[0] > 0 else (0.0, _log_odds_of(labels))


class _UsualRate:
    """A booster that knows nothing: without trees. What it predicts is the intercept of its calibration."""

    def dump_model(self) -> dict[str, Any]:
        """See `Booster`."""
        return {
            "objective": "binary sigmoid:1",
            "max_feature_idx": len(FEATURES) - 1,
            "tree_info": [],
        }


def _boosted(parts: Split, column: int, seed: int) -> Any:
    """A LightGBM booster of one signal."""
    import lightgbm as untyped_lightgbm

    lightgbm = cast("Any", untyped_lightgbm)
    names = list(FEATURES)
    learned = lightgbm.Dataset(parts.training.features, parts.training.labels[:, column], feature_name=names)
    chosen = lightgbm.Dataset(parts.validation.features, parts.validation.labels[:, column], reference=learned)
    parameters = {**_PARAMETERS, "seed": seed + column}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="lightgbm")
        return lightgbm.train(
            parameters,
            learned,
            num_boost_round=TREES,
            valid_sets=[chosen],
            callbacks=[lightgbm.early_stopping(EARLY_STOP, verbose=False)],
        )


def _too_few(labels: NDArray[np.bool_], least: int) -> bool:
    positives = int(labels.sum())
    return min(positives, len(labels) - positives) < least


def _log_odds_of(labels: NDArray[np.bool_]) -> float:
    positives = int(labels.sum())
    return float(np.log((positives + 0.5) / (len(labels) - positives + 0.5)))


def _nothing_to_learn(parts: Split) -> str:
    counts = zip(PREDICTED, parts.training.labels.sum(axis=0), parts.validation.labels.sum(axis=0), strict=True)
    there = ", ".join(f"{signal} {learned}/{chosen}" for signal, learned, chosen in counts)
    return (
        f"no signal happened often enough to be learned: at least {LEAST_POSITIVES} times in the training part and "
        f"{LEAST_POSITIVES_TO_VALIDATE} times in the validation part; there are {there}"
    )
