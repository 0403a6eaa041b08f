"""Pages of either view, as a reader gets them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, Self

from timeline_service.explanations import Explanation
from timeline_service.hydration import PostT
from timeline_service.ranking.insertions import Insertion


class View(Enum):
    """How a home timeline is ordered."""

    LATEST = "latest"
    """Newest first."""
    RANKED = "ranked"
    """By what the viewer is expected to care for."""


class Notice(Enum):
    """What the reader should be told of a page."""

    ORDER_EXPIRED = "order expired"
    """The order that was asked for is kept no longer: this is the first page of a new one."""
    RANKING_UNAVAILABLE = "ranking unavailable"
    """Ranking is not possible just now, so this is LATEST."""


@dataclass(frozen=True, slots=True)
class TimelinePage(Generic[PostT]):
    """A page of a home timeline."""

    posts: Sequence[PostT]
    """In the order of the view. Fewer than asked for does not mean the end."""
    next_token: str
    """Where the next page begins; empty at the end, and only there."""
    view: View
    """The order that the page has."""
    notice: Notice | None = None
    explanations: Sequence[Explanation] = ()
    """One for each post where they were asked for."""
    insertions: Sequence[Insertion] = ()
    """What the house puts between the posts."""

    def noticing(self, notice: Notice) -> Self:
        """The same page with a notice."""
        return replace(self, notice=notice)
