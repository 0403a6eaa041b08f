"""What is about a topic that is further up already counts less."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import NDArray

from timeline_service.ranking.rules.score_rule import check_share, repetition


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDiversity:
    """Discounts posts of a topic, which is a hashtag, from the second on, the further the more, down to a floor.

    A post of several topics counts as its most frequent one; a post of none is left alone.
    """

    name: ClassVar[str] = "topic-diversity"

    decay: float = 0.85
    """The factor of a topic's second post; its square is that of the third, and so on. Above 0, at most 1."""
    floor: float = 0.4
    """The lowest factor: above 0, at most 1."""

    def __post_init__(self) -> None:
        """Refuse what is no factor."""
        check_share("decay", self.decay)
        check_share("floor", self.floor)

    def factors(self, candidates: Candidates, order: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `ScoreRule`."""
        above = np.empty(len(order), dtype=np.intp)
        above[order] = posts_before(candidates.topics[order])
        return repetition(above, self.decay, self.floor)


def posts_before(topics: NDArray[np.uint32]) -> NDArray[np.intp]:
    """How many rows before each row of `topics` (n, m) have its most frequent topic in common with it; 0: no topic."""
    rows, columns = np.nonzero(topics)
    counts = np.zeros(len(topics), dtype=np.intp)
    if not len(rows):
        return counts
    # Each pair of a topic and a row once: a post that names a topic twice is still one post.
    pairs = np.unique(topics[rows, columns].astype(np.int64) * len(topics) + rows)
    topic, row = np.divmod(pairs, len(topics))
    places = np.arange(len(pairs))
    begins = np.ones(len(pairs), dtype=np.bool_)
    begins[1:] = topic[1:] != topic[:-1]
    np.maximum.at(counts, row, places - np.maximum.accumulate(np.where(begins, places, 0)))
    return counts
