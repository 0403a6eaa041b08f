"""The largest accounts leave room for the others."""

import math
from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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
        return max(1, math.floor(self.share * self.window + 1e-9))

    def is_kept(self, heads: NDArray[np.bool_]) -> bool:
        """Whether no window has more than this, `heads` (n,) telling of each place whether a head account has it."""
        until = np.concatenate(([0], np.cumsum(heads)))
        window = min(self.window, len(heads))
        return not (until[window:] - until[: len(until) - window] > self.most).any()


class HeadWindow:
    """The places given away last, one less than a window has, and what is promised of the window that begins at the top."""

    def __init__(self, most: int, window: int, *, reserved: int) -> None:
        """`reserved` is the number of guaranteed posts of head accounts."""
        self._most = most
        self._latest = deque([False] * (window - 1), maxlen=window - 1)
        self._count, self._reserved = 0, reserved
        self._decide()

    def add(self, is_head: bool, *, reserved: bool) -> None:
        """Note who got the next place, and whether it was reserved."""
        leaves = self._latest[0] if self._latest else is_head
        self._latest.append(is_head)
        if is_head != leaves or reserved:
            self._count += is_head - leaves
            self._reserved -= reserved
            self._decide()

    def _decide(self) -> None:
        self.is_full = self._count >= self._most
        """Whether no head account may have the next place."""
        self.is_spoken_for = self._count + self._reserved >= self._most
        """Whether no head account may have the next place but with a guaranteed post."""
