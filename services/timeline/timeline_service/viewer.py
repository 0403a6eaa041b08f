"""Whose home timeline is read."""

from collections.abc import Iterable
from typing import NamedTuple, Self


class Viewer(NamedTuple):
    """A user who looks at their home timeline, and what decides on it."""

    id: int
    authors: frozenset[int]
    """Those whose posts belong into it: whom the viewer follows, and the viewer."""

    @classmethod
    def who_follows(cls, viewer_id: int, followees: Iterable[int]) -> Self:
        """The viewer who follows these."""
        return cls(viewer_id, frozenset((viewer_id, *followees)))

    @property
    def follows_somebody(self) -> bool:
        """Whether there is anybody else in the timeline."""
        return len(self.authors) > 1
