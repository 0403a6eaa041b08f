"""Positions in the order of posts, and the time that a post id carries.

A post id is a Snowflake: 41 bits of milliseconds since 2024-01-01T00:00:00Z, 10 bits of worker, 12 bits of sequence. So
the order of ids is the order of `(created_at_ms, post_id)`, and a millisecond never has to be stored beside an id.
"""

import re
from typing import NamedTuple

from feedkit.errors import InvalidArgument

EPOCH_MS = 1_704_067_200_000
"""2024-01-01T00:00:00Z in Unix milliseconds."""
WORKER_BITS = 10
SEQUENCE_BITS = 12
TIME_SHIFT = WORKER_BITS + SEQUENCE_BITS
MAX_ID = (1 << 63) - 1
DEFAULT_PAGE_SIZE = 20
MAX_PAGE_SIZE = 50

_TOKEN = re.compile(r"(0|[1-9][0-9]{0,18}):(0|[1-9][0-9]{0,18})", re.ASCII)
_RULE = "must be empty or a cursor that this call returned, <created_at_ms>:<post_id>"


def created_at_ms(post_id: int) -> int:
    """When a post was written, in Unix milliseconds."""
    return (post_id >> TIME_SHIFT) + EPOCH_MS


def first_id_at(ms: int) -> int:
    """The least id of a Unix millisecond; 0 before the epoch of ids, and no more than the greatest id there can be."""
    return min(max(ms - EPOCH_MS, 0) << TIME_SHIFT, MAX_ID)


class Position(NamedTuple):
    """A place in the order of posts: what follows it is older. Its post may be gone."""

    created_at_ms: int
    post_id: int

    @classmethod
    def of(cls, post_id: int) -> "Position":
        """The position of a post."""
        return cls(created_at_ms(post_id), post_id)

    @classmethod
    def parse(cls, token: str, field: str = "page_token") -> "Position | None":
        """Read a cursor; None for an empty one, which stands for the top.

        Raises InvalidArgument, naming `field`, for anything that is no cursor.
        """
        if not token:
            return None
        match = _TOKEN.fullmatch(token)
        if match is None or int(match[1]) > MAX_ID or int(match[2]) > MAX_ID:
            raise InvalidArgument.of_field(field, _RULE, reason="INVALID_PAGE_TOKEN")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.created_at_ms}:{self.post_id}"

    @property
    def id_bound(self) -> int:
        """The exclusive upper bound of the ids that follow this position.

        For a position that a post had, its id. A cursor made by hand may pair an id with another millisecond; the order is
        by millisecond first, so the bound is then an edge of that millisecond.
        """
        return min(max(self.post_id, first_id_at(self.created_at_ms)), first_id_at(self.created_at_ms + 1))


def clamp_page_size(page_size: int) -> int:
    """The page size in force (AIP-158): 0 means the default, and no page is larger than the largest."""
    return min(page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
