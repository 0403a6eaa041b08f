"""What happened and what is wished for, as it comes in."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias


class PostChange(Enum):
    """What happened to a post."""

    WRITTEN = "written"
    EDITED = "edited"
    DELETED = "deleted"


class PostEvent(NamedTuple):
    """Something happened to a post."""

    post_id: int
    author_id: int
    change: PostChange


class EdgeChange(Enum):
    """What one user did about another. Whether it still stands, the truth tells."""

    FOLLOWED = "followed"
    UNFOLLOWED = "unfollowed"
    MUTED = "muted"
    UNMUTED = "unmuted"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"
    FAVOURED = "favoured"
    UNFAVOURED = "unfavoured"


class GraphEvent(NamedTuple):
    """A viewer did something about an author."""

    viewer_id: int
    author_id: int
    change: EdgeChange


class AccountChange(Enum):
    """What happened to an account."""

    SUSPENDED = "suspended"
    RESTORED = "restored"
    DELETED = "deleted"
    VIEW_CHOSEN = "view chosen"


class AccountEvent(NamedTuple):
    """Something happened to an account."""

    user_id: int
    change: AccountChange


class Chunk(NamedTuple):
    """A part of a large fan-out: one post for some of its author's active followers."""

    post_id: int
    author_id: int
    follower_ids: Sequence[int]
    withdrawn: bool = False
    """Whether it is taken out of their timelines, instead of being put into them."""


class Wish(NamedTuple):
    """A timeline, or one author's part of it, is to be made equal to the truth."""

    viewer_id: int
    author_id: int
    """Whose part; 0: the whole timeline is rebuilt."""

    @property
    def is_rebuild(self) -> bool:
        """Whether the whole timeline is meant."""
        return self.author_id == 0


class EraseWish(NamedTuple):
    """A further part of what is left of a deleted user is to be erased."""

    user_id: int


AnyWish: TypeAlias = Wish | EraseWish
