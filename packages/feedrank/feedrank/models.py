"""What predicts, whatever it is made of."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from feedrank.baseline import Baseline
from feedrank.model_file import ModelError, read
from feedrank.trees import Trees

__all__ = ["Model", "ModelError", "load"]


class Model(Protocol):
    """Predicts what a viewer will do with posts. May be shared by threads."""

    @property
    def version(self) -> str:
        """Which model it is, for people and for the log of what was shown."""
        ...

    @property
    def trained_at_ms(self) -> int:
        """Unix milliseconds; 0 for one that was not trained."""
        ...

    def predict(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, 5): the probability of each signal of PREDICTED, for each row of a matrix of FEATURES."""
        ...

    def effects(self, rows: NDArray[np.float32], weights: NDArray[np.floating]) -> NDArray[np.float32]:
        """(k, F): by how much each feature moved the score (predictions @ weights) of each row.

        That is the score less what it would be if the feature had its neutral value. For a few rows, not for all
        candidates: it predicts F + 1 rows for each.
        """
        ...


def load(path: Path | None) -> Model:
    """The trained model of a file, or the baseline without one. Raises ModelError with what is wrong with the file."""
    if path is None:
        return Baseline()
    file = read(path)
    return Trees(
        file.forest,
        neutral=file.neutral,
        calibration=file.calibration,
        version=file.version,
        trained_at_ms=file.trained_at_ms,
    )
