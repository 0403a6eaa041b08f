"""The ranker: features to predictions, predictions to an order, and why."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from feedrank.candidates import Candidates
from feedrank.features import matrix
from feedrank.models import Model
from numpy.typing import NDArray

from timeline_service.candidates import Shortlist
from timeline_service.explanations import Reason, reasons
from timeline_service.ranking import arrangement
from timeline_service.ranking.rules import Rules
from timeline_service.source import NOT_NOW
from timeline_service.viewer import Viewer

logger = logging.getLogger(__name__)

COMPLAINT_SECONDS = 60.0
"""How often at most the log tells of a model that fails: it would do so at every read."""


class Obstacle(Enum):
    """Why nothing can be ranked just now."""

    FEATURES = "features"
    """The features cannot be read."""
    MODEL = "model"
    """The model, or a rule, fails, or what is known cannot be understood."""
    ORDERS = "orders"
    """The order cannot be kept, or found."""


class Unrankable(Exception):
    """Nothing can be ranked just now; the read goes on without."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.value)
        self.obstacle = obstacle


class Features(Protocol):
    """Where features come from."""

    async def of(self, viewer: Viewer, entries: Shortlist) -> Candidates:
        """The features of some entries. Raises one of source.NOT_NOW."""
        ...


class Ranking(NamedTuple):
    """Candidates with an order. A *row* is a candidate's index."""

    matrix: NDArray[np.float32]
    """(n, F)"""
    predictions: NDArray[np.floating]
    """(n, PREDICTED)"""
    order: arrangement.Order


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the ranked view is made."""

    model: str
    """Its version."""
    trained_at_ms: int
    """Unix milliseconds; 0 for one that was not trained."""
    weights: Sequence[float]
    """Of each signal, in the order of PREDICTED."""
    rules: Sequence[str]
    """Their names, in the order in which they are applied."""


class Ranker:
    """Ranks candidates with one model, weights and rules."""

    def __init__(
        self,
        features: Features,
        model: Model,
        weights: Sequence[float],
        rules: Rules,
        clock: Callable[[], float],
    ) -> None:
        """`weights` has one for each signal of PREDICTED, in that order; `clock` gives Unix seconds."""
        self._features = features
        self._model = model
        self._weights = tuple(weights)
        self._rules = rules
        self._clock = clock
        self._complained_at = -math.inf

    @property
    def recipe(self) -> Recipe:
        """How it ranks."""
        model = self._model
        return Recipe(
            model.version, model.trained_at_ms, self._weights, self._rules.names if any(self._weights) else ()
        )

    async def rank(self, viewer: Viewer, candidates: Shortlist) -> Ranking:
        """The order of candidates for a viewer. Raises Unrankable."""
        known = await self._known(viewer, candidates)
        try:
            rows, predictions = self._predicted(known)
            return Ranking(rows, predictions, arrangement.rank(known, predictions, self._weights, self._rules))
        except Exception as error:
            raise self._failed(error) from error

    def reasons(self, ranking: Ranking, rows: Sequence[int]) -> list[Reason]:
        """Why some rows have their scores. Raises Unrankable."""
        some = list(rows)
        return self._reasons(ranking.matrix[some], ranking.predictions[some])

    async def reasons_for(self, viewer: Viewer, entries: Shortlist) -> list[Reason]:
        """Why some entries would have their scores now. Raises Unrankable.

        They may be in any order, since no feature of one depends on the others.
        """
        known = await self._known(viewer, entries)
        try:
            rows, predictions = self._predicted(known)
        except Exception as error:
            raise self._failed(error) from error
        return self._reasons(rows, predictions)

    async def _known(self, viewer: Viewer, entries: Shortlist) -> Candidates:
        try:
            return await self._features.of(viewer, entries)
        except NOT_NOW as error:
            raise Unrankable(Obstacle.FEATURES) from error
        except Exception as error:
            raise self._failed(error) from error

    def _predicted(self, candidates: Candidates) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        rows = matrix(candidates, self._clock())
        return rows, self._model.predict(rows)

    def _reasons(self, rows: NDArray[np.float32], predictions: NDArray[np.floating]) -> list[Reason]:
        try:
            return reasons(rows, self._model.effects(rows, np.array(self._weights)), predictions, self._weights)
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> Unrankable:
        """A fault in what ranks, whatever it is, costs nobody the timeline."""
        now = self._clock()
        if now - self._complained_at >= COMPLAINT_SECONDS:
            self._complained_at = now
            logger.error("ranking fails", exc_info=error)
        return Unrankable(Obstacle.MODEL)
