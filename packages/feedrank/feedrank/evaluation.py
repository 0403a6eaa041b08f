"""How well models predict what followed, signal by signal, beside chronological order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feedrank.metrics import (
    Bin,
    Interval,
    calibration_error,
    interval,
    log_loss,
    mean_interval,
    ndcg,
    reliability,
    resampled,
    weighted_auc,
)
from feedrank.models import Model
from feedrank.replay import Examples
from feedrank.signals import PREDICTED

CHRONOLOGICAL = "chronological"
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How well one signal is predicted."""

    signal: str
    predictor: str
    """The name of the model, or CHRONOLOGICAL."""
    positives: int
    """How often it happened."""
    auc: Interval
    """Over viewers."""
    log_loss: float
    """NaN of a mere order."""
    calibration_error: float
    """NaN of a mere order."""
    reliability: Sequence[Bin]
    """None of a mere order."""

    def as_json(self) -> dict[str, Any]:
        """The figures as a model's file keeps them; None where one is NaN."""
        figures = {
            "auc": self.auc.value,
            "auc_low": self.auc.low,
            "auc_high": self.auc.high,
            "log_loss": self.log_loss,
            "calibration_error": self.calibration_error,
        }
        known = {name: None if np.isnan(figure) else round(figure, 6) for name, figure in figures.items()}
        return {"signal": self.signal, "predictor": self.predictor, "positives": self.positives, **known}


def evaluate(examples: Examples, models: Mapping[str, Model], *, seed: int = 1) -> list[Quality]:
    """Judge models, by the names they are to have, and chronological order on examples that none was trained on.

    By signal, in the order of PREDICTED; within it the models in their order, then CHRONOLOGICAL.
    """
    weights = resampled(examples.viewer_ids, seed)
    predictions = {name: model.predict(examples.features) for name, model in models.items()}
    qualities: list[Quality] = []
    for column, signal in enumerate(PREDICTED):
        labels = examples.labels[:, column]
        for name, predicted in predictions.items():
            bins = reliability(predicted[:, column], labels)
            qualities.append(
                Quality(
                    signal=signal,
                    predictor=name,
                    positives=int(labels.sum()),
                    auc=interval(weighted_auc(predicted[:, column], labels), weights),
                    log_loss=log_loss(predicted[:, column], labels),
                    calibration_error=calibration_error(bins),
                    reliability=bins,
                )
            )
        qualities.append(_chronological(signal, examples, labels, weights))
    return qualities


def order_quality(examples: Examples, models: Mapping[str, Model], weights: Sequence[float]) -> dict[str, Interval]:
    """NDCG@20 of the orders in which each model, and CHRONOLOGICAL, would have put what a viewer saw on a UTC day.

    What came true is worth its weight, of those of PREDICTED; the score is the weighted sum of probabilities. Days on which
    nothing worth something happened say nothing, and are left out. Only what was seen can be ordered anew, so this tells
    less than showing the orders would. Intervals are over viewers.
    """
    scores: dict[str, NDArray[Any]] = {
        name: model.predict(examples.features) @ np.asarray(weights) for name, model in models.items()
    }
    scores[CHRONOLOGICAL] = examples.created_at_ms
    worth = np.maximum(examples.labels @ np.asarray(weights, np.float64), 0.0)
    days = [rows for rows in _days_of_viewers(examples) if worth[rows].any()]
    qualities: dict[str, Interval] = {}
    for name, score in scores.items():
        of_viewers: dict[int, list[float]] = {}
        for rows in days:
            found = ndcg(worth[rows][np.argsort(-score[rows], kind="stable")], worth[rows])
            of_viewers.setdefault(int(examples.viewer_ids[rows[0]]), []).append(found)
        qualities[name] = mean_interval([float(np.mean(figures)) for figures in of_viewers.values()])
    return qualities


def _days_of_viewers(examples: Examples) -> list[NDArray[np.intp]]:
    """The rows of each viewer on each UTC day."""
    pairs = np.column_stack([examples.viewer_ids, examples.shown_at_ms // DAY_MS])
    number = np.unique(pairs, axis=0, return_inverse=True)[1]
    return np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])


def roc(scores: NDArray[Any], labels: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The curve whose area is the AUC: what part of those that did not come true, and of those that did, is above a score.

    From (0, 0) to (1, 1), with a point for each score that occurs.
    """
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(scores[order][1:] != scores[order][:-1], True))
    hits, misses = np.cumsum(labels[order])[last], np.cumsum(~labels[order])[last]
    return np.append(0.0, misses / max(1, misses[-1])), np.append(0.0, hits / max(1, hits[-1]))


def _chronological(signal: str, examples: Examples, labels: NDArray[np.bool_], weights: NDArray[np.float64]) -> Quality:
    """Chronological order says which post comes first, and nothing of how likely anything is."""
    recency = examples.created_at_ms - examples.shown_at_ms
    return Quality(
        signal=signal,
        predictor=CHRONOLOGICAL,
        positives=int(labels.sum()),
        auc=interval(weighted_auc(recency, labels), weights),
        log_loss=np.nan,
        calibration_error=np.nan,
        reliability=(),
    )
