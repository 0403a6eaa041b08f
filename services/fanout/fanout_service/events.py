"""What happened and what is wished for, as it comes in."""

from collections.abc import Sequence
from typing import NamedTuple


class PostEvent(NamedTuple):
    """A post was written, or deleted."""

    post_id: int
    author_id: int
    deleted: bool


class FollowEvent(NamedTuple):
    """One user follows another now, or no longer; which of the two, the truth tells."""

    follower_id: int
    followee_id: int


class Chunk(NamedTuple):
    """A part of a large fan-out: one post for some of its author's active followers."""

    post_id: int
    author_id: int
    follower_ids: Sequence[int]


class Wish(NamedTuple):
    """A timeline, or one author's part of it, is to be made equal to the truth."""

    viewer_id: int
    author_id: int
    """Whose part; 0: the whole timeline is rebuilt."""

    @property
    def is_rebuild(self) -> bool:
        """Whether the whole timeline is meant."""
        return self.author_id == 0
