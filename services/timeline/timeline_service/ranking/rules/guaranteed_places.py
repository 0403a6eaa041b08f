"""Those who matter most to the viewer are near the top."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteedPlaces:
    """Places the best unseen post of each favourite, and of the strongest ties, within the first places.

    A *strong tie* is an author to whom the viewer has much affinity. Where there are more such posts than places,
    favourites come before ties, and better posts before worse ones. A post stands no higher for it than it has to.
    """

    name: ClassVar[str] = "guaranteed-places"

    within: int = 20
    """How many places, from the top."""
    strong_ties: int = 5
    """How many authors at most are guaranteed a place who are no favourites."""
    affinity: float = 6.0
    """The affinity above which an author is a strong tie; see `feedrank.signals`."""

    def __post_init__(self) -> None:
        """Refuse what is no number of places or authors."""
        if self.within < 1 or self.strong_ties < 0:
            raise ValueError(f"within {self.within} places, {self.strong_ties} strong ties")

    def rows(self, candidates: Candidates, order: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows (n,) are guaranteed a place: at most one of each author. `order` has the best first."""
        guaranteed = np.zeros(len(order), dtype=np.bool_)
        mattering = candidates.is_favourite | (candidates.affinity > self.affinity)
        eligible = mattering & ~(candidates.was_seen | candidates.was_hidden | candidates.is_own)
        rows = order[eligible[order]]
        if not len(rows):
            return guaranteed
        _, firsts = np.unique(candidates.author_ids[rows], return_index=True)
        best = rows[np.sort(firsts)]
        is_favourite = candidates.is_favourite[best]
        favourites, ties = best[is_favourite], best[~is_favourite]
        strongest = np.argsort(-candidates.affinity[ties], kind="stable")[: self.strong_ties]
        guaranteed[np.concatenate((favourites, ties[np.sort(strongest)]))[: self.within]] = True
        return guaranteed


class Promises:
    """The guaranteed posts that have no place yet, while places are given away from the top down."""

    def __init__(self, authors: list[int], within: int) -> None:
        """`authors` are those of the guaranteed posts, `within` or fewer."""
        self._within = within
        self.authors = set(authors)

    def due(self, place: int) -> bool:
        """Whether the places that are left, this one included, are all needed."""
        return bool(self.authors) and len(self.authors) >= self._within - place

    def last(self, place: int) -> int | None:
        """The author of the only guaranteed post left, where the place after this one is the last that it can have."""
        return next(iter(self.authors)) if len(self.authors) == 1 and place == self._within - 2 else None
