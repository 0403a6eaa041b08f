"""Where the entries of a home timeline came from: what a reader is told who asks why a post is there."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Origin(IntEnum):
    """Where a post came from."""

    PUSHED = 1
    """It was pushed into the viewer's timeline when it was written."""
    PULLED = 2
    """It was pulled when the timeline was read."""
    OWN = 3
    """The viewer wrote it."""


class Pushed(Protocol):
    """A timeline into which posts are pushed."""

    @property
    def pushed_to(self) -> int:
        """Of those who are pushed, whatever was read at or above this id came from the timeline, and nothing below."""
        ...


class Origins(NamedTuple):
    """What tells, of the entries that one read came by, where they came from."""

    viewer_id: int
    pulled: frozenset[int] = frozenset()
    """Those of the viewer's authors who have so many followers that their posts are pulled, as far as that is known."""
    timeline: Pushed | None = None
    """The viewer's timeline, where it was read at all."""

    def of(
        self, post_ids: Sequence[int] | NDArray[np.int64], author_ids: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """The Origin of each of some posts."""
        posts, authors = np.asarray(post_ids, np.int64), np.asarray(author_ids, np.int64)
        origins = np.full(len(posts), Origin.PULLED, np.uint8)
        if self.timeline is not None:
            origins[(posts >= self.timeline.pushed_to) & ~self.are_pulled(authors)] = Origin.PUSHED
        origins[authors == self.viewer_id] = Origin.OWN
        return origins

    def are_pulled(self, author_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of each author, whether their posts are pulled because of their many followers."""
        return np.isin(author_ids, np.fromiter(self.pulled, np.int64, len(self.pulled)))
