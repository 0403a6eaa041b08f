"""Those who matter most to the viewer are near the top."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteedPlaces:
    """Places the best unseen post of each favourite, and of the strongest ties, within the first places.

    A *strong tie* is an author to whom the viewer has much affinity. Favourites come before ties, and within each the
    better post comes first, where there are more than places.
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
