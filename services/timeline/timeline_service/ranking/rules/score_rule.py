"""The shape of a score rule."""

from typing import ClassVar, Protocol

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import NDArray


class ScoreRule(Protocol):
    """Says by which factor the score of each candidate counts: above 1 it is lifted, below 1 demoted."""

    name: ClassVar[str]
    """As it is shown in explanations."""

    def factors(self, candidates: Candidates, order: NDArray[np.intp]) -> NDArray[np.float64]:
        """The factor (n,) of each row, above 0. `order` has the rows as they stand before the rule, the best first."""
        ...


def discounted(scores: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores (n,) after their factors (n,): multiplied, or divided where the score is negative.

    So a factor below 1 never raises a score, whatever its sign, and one above 1 never lowers it. Scores never change
    their sign, and factors that are all multiplied by the same number give the same order. A score of 0 stays 0.
    """
    return np.where(scores < 0, scores / factors, scores * factors)


def repetition(times: NDArray[np.intp], decay: float, floor: float) -> NDArray[np.float64]:
    """The factor of something that was there already so many `times` (n,): `decay ** times`, but not below `floor`."""
    return np.maximum(decay**times, floor)


def check_share(name: str, value: float) -> None:
    """Raise ValueError unless a parameter is above 0 and at most 1."""
    if not 0 < value <= 1:
        raise ValueError(f"{name} is {value}, not above 0 and at most 1")
