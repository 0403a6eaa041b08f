"""The largest accounts leave room for the others."""

from dataclasses import dataclass
from typing import ClassVar

from timeline_service.ranking.rules.score_rule import check_share


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShare:
    """Bounds the posts of *head accounts*, whose posts are pulled, in each window, as long as there are other posts."""

    name: ClassVar[str] = "head-share"

    share: float = 0.5
    """Of the places of a window, rounded down, but at least 1 of them: above 0, at most 1."""
    window: int = 20
    """How many places in a row, wherever they begin: as many as places are guaranteed, or more."""

    def __post_init__(self) -> None:
        """Refuse what is no share or no window."""
        check_share("share", self.share)
        if self.window < 1:
            raise ValueError(f"window is {self.window}, not 1 or more")

    @property
    def most(self) -> int:
        """How many posts of head accounts a window may have."""
        return max(1, int(self.share * self.window))
