"""Who has a post further up counts less with the next."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import NDArray

from timeline_service.ranking.rules.score_rule import check_share, repetition


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorDiversity:
    """Discounts the posts of an author from the second on, the further the more, down to a floor."""

    name: ClassVar[str] = "author-diversity"

    decay: float = 0.7
    """The factor of an author's second post; its square is that of the third, and so on. Above 0, at most 1."""
    floor: float = 0.2
    """The lowest factor: above 0, at most 1."""

    def __post_init__(self) -> None:
        """Refuse what is no factor."""
        check_share("decay", self.decay)
        check_share("floor", self.floor)

    def factors(self, candidates: Candidates, order: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `ScoreRule`."""
        above = np.empty(len(order), dtype=np.intp)
        above[order] = times_before(candidates.author_ids[order])
        return repetition(above, self.decay, self.floor)


def times_before(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """How often each value (n,) occurs before its place."""
    by_value = np.argsort(values, kind="stable")
    sorted_values = values[by_value]
    places = np.arange(len(values))
    begins = np.ones(len(values), dtype=np.bool_)
    begins[1:] = sorted_values[1:] != sorted_values[:-1]
    times = np.empty(len(values), dtype=np.intp)
    times[by_value] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return times
