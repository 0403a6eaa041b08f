"""Whose home timeline is read."""

from collections.abc import Sequence
from typing import NamedTuple, Self


class Context(NamedTuple):
    """What a timeline has to know of its viewer."""

    followees: Sequence[int]
    """Whom the viewer follows and does not mute, ascending."""
    favourites: Sequence[int] = ()
    """Those of them who are favourites, ascending."""
    prefers_ranked: bool = False
    """Whether the viewer has chosen to be shown the ranked view."""


class Viewer(NamedTuple):
    """A user who looks at their home timeline, and what decides on it."""

    id: int
    authors: frozenset[int]
    """Those whose posts belong into it: whom the viewer follows, and the viewer."""
    favourites: Sequence[int] = ()
    """Those of them whom the viewer has made favourites."""
    prefers_ranked: bool = False
    """Whether the ranked view is shown to them where a read does not say which."""

    @classmethod
    def of(cls, viewer_id: int, context: Context) -> Self:
        """The viewer with this context."""
        followees, favourites, prefers_ranked = context
        return cls(viewer_id, frozenset((viewer_id, *followees)), favourites, prefers_ranked)

    @property
    def follows_somebody(self) -> bool:
        """Whether there is anybody else in the timeline."""
        return len(self.authors) > 1
