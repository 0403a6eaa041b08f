"""What is newer counts more."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import NDArray

from timeline_service.ranking.rules.score_rule import check_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Lets scores fade by half in each half-life, but not below a floor.

    Ages are counted from the newest candidate, so that no clock is asked, and somebody who comes back after a week still
    sees the newest of it first. Factors are relative to the candidate in the middle: what is fresher is lifted, and
    what is older is demoted. That changes no order, only how the moves read.
    """

    name: ClassVar[str] = "freshness"

    half_life_seconds: float = 6 * 3_600.0
    """Above 0."""
    floor: float = 0.2
    """What is left of the score of an old post beside that of the newest: above 0, at most 1."""

    def __post_init__(self) -> None:
        """Refuse what is no half-life or no factor."""
        if not self.half_life_seconds > 0:
            raise ValueError(f"half_life_seconds is {self.half_life_seconds}, not above 0")
        check_share("floor", self.floor)

    def factors(self, candidates: Candidates, order: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `ScoreRule`."""
        created = candidates.created_at_ms
        ages = (created.max(initial=0) - created) / 1_000
        fresh = np.maximum(np.exp2(-ages / self.half_life_seconds), self.floor)
        return fresh / np.partition(fresh, len(fresh) // 2)[len(fresh) // 2] if len(fresh) else fresh
