"""What the viewer has seen lately counts less."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import NDArray

from timeline_service.ranking.rules.score_rule import check_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Demotes seen posts; none is lost."""

    name: ClassVar[str] = "seen"

    factor: float = 0.3
    """By which the score of a seen post counts: above 0, at most 1."""

    def __post_init__(self) -> None:
        """Refuse what is no factor."""
        check_share("factor", self.factor)

    def factors(self, candidates: Candidates, order: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `ScoreRule`."""
        return np.where(candidates.was_seen, self.factor, 1.0)
