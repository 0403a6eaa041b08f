"""The processor time of ranking 400 candidates: features, the predictions of a trained model, and all rules.

The trees are as many and as large as training makes them at most (`feedrank.training`), whatever they have learned.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from feedrank import features
from feedrank.baseline import Baseline
from feedrank.candidates import Candidates
from feedrank.features import FEATURES, NEUTRAL
from feedrank.models import Model
from feedrank.signals import OBSERVED, PREDICTED
from feedrank.training import LEAVES, TREES
from feedrank.trees import Forest, Split, Tree, Trees
from timeline_service.ranking.arrangement import rank
from timeline_service.ranking.rules import ALL_RULES

from tests.bench.results import Result

CANDIDATES = 400
AUTHORS = (5, 50, 300)
WEIGHTS = (1.0, 2.0, 1.5, 0.5, -5.0)
NOW = 1_780_000_000.0
"""Unix seconds."""


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure each step and the whole, of as many authors; a second a run is enough."""
    seconds = min(seconds, 1.0)
    models = {"baseline": Baseline(), "trees": _trees()}
    results: list[Result] = []
    for authors in AUTHORS:
        candidates = _candidates(authors)
        steps: dict[str, Callable[[], object]] = {
            f"ranking.authors_{authors}.{name}.us": partial(_ranked, candidates, model)
            for name, model in models.items()
        }
        if authors == AUTHORS[-1]:
            steps |= _steps(candidates, models)
        for key, step in steps.items():
            step()  # warm up
            times = [_microseconds(step, seconds) for _ in range(runs)]
            results.append(Result.of(key, times, unit="us", goal="lower"))
    return results


def _steps(candidates: Candidates, models: Mapping[str, Model]) -> dict[str, Callable[[], object]]:
    rows = features.matrix(candidates, NOW)
    predictions = models["trees"].predict(rows)
    return {
        "ranking.step.features.us": lambda: features.matrix(candidates, NOW),
        "ranking.step.baseline.us": lambda: models["baseline"].predict(rows),
        "ranking.step.trees.us": lambda: models["trees"].predict(rows),
        "ranking.step.rules.us": lambda: rank(candidates, predictions, WEIGHTS, ALL_RULES),
    }


def _ranked(candidates: Candidates, model: Model) -> object:
    return rank(candidates, model.predict(features.matrix(candidates, NOW)), WEIGHTS, ALL_RULES)


def _microseconds(step: Callable[[], object], seconds: float) -> float:
    calls, began, until = 0, time.process_time(), time.monotonic() + seconds
    while time.monotonic() < until:
        step()
        calls += 1
    return (time.process_time() - began) / calls * 1e6


def _candidates(authors: int) -> Candidates:
    """Posts of so many authors over some days, of whom much is known; the same each time."""
    dice = np.random.default_rng(authors)
    author_ids = dice.integers(1, authors + 1, CANDIDATES)
    created = np.sort((NOW - dice.uniform(0, 3 * 86_400, CANDIDATES)) * 1_000)[::-1].astype(np.int64)
    sums = dice.gamma(0.5, 20.0, (CANDIDATES, len(OBSERVED))).astype(np.float32)

    def some(share: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return dice.random(CANDIDATES) < share

    return Candidates(
        post_ids=np.arange(CANDIDATES, 0, -1),
        author_ids=author_ids,
        created_at_ms=created,
        has_media=some(0.2),
        is_reply=some(0.2),
        topics=(dice.integers(1, 40, (CANDIDATES, 4)) * (dice.random((CANDIDATES, 4)) < 0.2)).astype(np.uint32),
        sums=sums,
        recent=(sums / 4).astype(np.float32),
        recent_at=np.full(CANDIDATES, NOW - 600),
        author_recent=(sums * 10).astype(np.float32),
        author_recent_at=np.full(CANDIDATES, NOW - 3_600),
        affinity=dice.normal(1.0, 2.0, authors + 1).astype(np.float32)[author_ids],
        is_own=author_ids == 1,
        is_favourite=author_ids == min(2, authors),
        is_pulled=author_ids % 4 == 0,
        was_seen=some(0.3),
        was_hidden=some(0.01),
    )


def _trees() -> Trees:
    dice = np.random.default_rng(7)
    forest: Forest = {signal: [_tree(dice, LEAVES) for _ in range(TREES)] for signal in PREDICTED}
    calibration = [(1.0, 0.0)] * len(PREDICTED)
    return Trees(forest, neutral=NEUTRAL, calibration=calibration, version="bench", trained_at_ms=0)


def _tree(dice: np.random.Generator, leaves: int) -> Tree:
    if leaves == 1:
        return float(dice.normal(0.0, 0.05))
    low = int(dice.integers(1, leaves))
    feature = FEATURES[int(dice.integers(len(FEATURES)))]
    return Split(feature, float(dice.normal(0.5, 1.0)), _tree(dice, low), _tree(dice, leaves - low))
