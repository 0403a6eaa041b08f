"""Figures by which predictions and orders are judged, and how far chance alone may have moved them."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Labels: TypeAlias = NDArray[np.bool_]

BINS = 10
RESAMPLES = 200


class Interval(NamedTuple):
    """A figure, and between what it lies with 95 % confidence. All are NaN where nothing can be said."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return "–" if np.isnan(self.value) else f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


class Bin(NamedTuple):
    """Predictions of about the same size, and what came of them."""

    predicted: float
    """Their mean."""
    observed: float
    """The part of them that came true."""
    size: int


# --- predictions ------------------------------------------------------------------------------------------------------


def auc(scores: NDArray[Any], labels: Labels) -> float:
    """How often something that came true has a higher score than something that did not; an equal one counts half.

    NaN where only one of the two occurred.
    """
    return weighted_auc(scores, labels)(np.ones(len(labels)))


def weighted_auc(scores: NDArray[Any], labels: Labels) -> Callable[[Floats], float]:
    """The same, with rows that count as often as their weight says. Sorts once for any number of weights."""
    order = np.argsort(scores, kind="stable")
    ranked, positive = scores[order], labels[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]])) if len(ranked) else np.zeros(0, int)

    def figure(weights: Floats) -> float:
        weight = weights[order]
        if not len(weight):
            return np.nan
        positives = np.add.reduceat(weight * positive, starts)
        negatives = np.add.reduceat(weight * ~positive, starts)
        below = np.cumsum(negatives) - negatives
        pairs = positives.sum() * negatives.sum()
        return float((positives * (below + negatives / 2)).sum() / pairs) if pairs else np.nan

    return figure


def log_loss(probabilities: Floats, labels: Labels) -> float:
    """The mean of -log(probability of what happened); lower is better. NaN of nothing."""
    if not len(labels):
        return np.nan
    # In 8 bytes, where 1 less the smallest is not 1.
    certain = np.clip(probabilities.astype(np.float64), 1e-12, 1 - 1e-12)
    return float(-np.log(np.where(labels, certain, 1 - certain)).mean())


def reliability(probabilities: Floats, labels: Labels, bins: int = BINS) -> list[Bin]:
    """What came of predictions, in bins of equally many, from the smallest up."""
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [Bin(float(probabilities[part].mean()), float(labels[part].mean()), len(part)) for part in parts]


def calibration_error(bins: list[Bin]) -> float:
    """The expected calibration error: how far predictions are from what comes true, on average. NaN of nothing."""
    size = sum(part.size for part in bins)
    return sum(part.size * abs(part.predicted - part.observed) for part in bins) / size if size else np.nan


# --- orders -----------------------------------------------------------------------------------------------------------


def ndcg(gains: ArrayLike, best: ArrayLike, first: int = 20) -> float:
    """The discounted gain of an order's `first` places, as a part of the greatest that there could be.

    `gains`: what each place of the order is worth. `best`: of all that could have been chosen. None is below 0. NaN where
    nothing is worth anything.
    """
    greatest = _discounted(np.sort(np.asarray(best, np.float64))[::-1][:first])
    return _discounted(np.asarray(gains, np.float64)[:first]) / greatest if greatest > 0 else np.nan


def _discounted(gains: Floats) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())


# --- exposure ---------------------------------------------------------------------------------------------------------


def gini(counts: ArrayLike) -> float:
    """How unequally something is spread: 0: evenly, towards 1: one has it all. NaN where there is nothing to spread."""
    ascending = np.sort(np.asarray(counts, np.float64))
    total = float(ascending.sum())
    if not total:
        return np.nan
    ranks = np.arange(1, len(ascending) + 1)
    return float(2 * (ranks * ascending).sum() / (len(ascending) * total) - (len(ascending) + 1) / len(ascending))


def top_share(counts: ArrayLike, part: float = 0.01) -> float:
    """What part of all belongs to those who have most: to this part of them, at least one. NaN of nothing."""
    descending = np.sort(np.asarray(counts, np.float64))[::-1]
    total = descending.sum()
    return float(descending[: max(1, round(part * len(descending)))].sum() / total) if total else np.nan


# --- chance -----------------------------------------------------------------------------------------------------------


def resampled(groups: NDArray[Any], seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """(resamples, n): how often each row counts when its group is drawn as often as chance will have it.

    Rows of a group, such as a viewer, come together, because they are alike.
    """
    distinct, group = np.unique(groups, return_inverse=True)
    if not len(distinct):
        return np.zeros((resamples, 0))
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(len(distinct), np.full(len(distinct), 1 / len(distinct)), size=resamples)
    return drawn[:, group].astype(np.float64)


def interval(figure: Callable[[Floats], float], weights: NDArray[np.float64]) -> Interval:
    """A figure of rows, and its 95 % percentile interval over resamples; see `resampled`."""
    values = np.fromiter(map(figure, weights), np.float64, len(weights))
    once = np.ones(int(weights.shape[1]))
    return Interval(figure(once), *_middle(values[~np.isnan(values)]))


def mean_interval(values: ArrayLike, seed: int = 1, resamples: int = 1_000) -> Interval:
    """The mean of independent values, such as one for each viewer, and its interval. NaNs are passed over."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return Interval(np.nan, np.nan, np.nan)
    drawn = np.random.default_rng(seed).integers(len(numbers), size=(resamples, len(numbers)))
    return Interval(float(numbers.mean()), *_middle(numbers[drawn].mean(axis=1)))


def _middle(values: NDArray[np.float64]) -> tuple[float, float]:
    """Between what 95 % of some values lie; NaN of none."""
    return (float(np.percentile(values, 2.5)), float(np.percentile(values, 97.5))) if len(values) else (np.nan, np.nan)
