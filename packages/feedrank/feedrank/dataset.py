"""The log of a mesh: what was written, seen and done. From it the models of the ranked view are trained and judged."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ENGAGEMENTS = ("like", "unlike", "repost", "unrepost", "reply", "unreply", "less_like_this", "hide")
"""What somebody may do with a post, or take back."""
LIKE, UNLIKE, REPOST, UNREPOST, REPLY, UNREPLY, LESS_LIKE_THIS, HIDE = range(len(ENGAGEMENTS))
VIEWS = ("latest", "ranked")

TOPICS = 4

Records: TypeAlias = NDArray[np.void]
"""Rows with named columns."""

POST = np.dtype(
    [("post", "i8"), ("author", "i8"), ("at", "i8"), ("media", "?"), ("reply", "?"), ("topics", "u4", (TOPICS,))]
)
IMPRESSION = np.dtype(
    [("viewer", "i8"), ("post", "i8"), ("at", "i8"), ("position", "i4"), ("dwell_ms", "i4"), ("ranked", "?")]
)
"""`at`: when it was told, which is after the look at it."""
ENGAGEMENT = np.dtype([("actor", "i8"), ("post", "i8"), ("at", "i8"), ("kind", "u1")])
"""`kind`: a place in ENGAGEMENTS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What happened in a mesh. Raises ValueError where an array is not in the order of `at`, in Unix milliseconds."""

    posts: Records
    """Of POST: at least all those that were seen and still stand, each once."""
    impressions: Records
    """Of IMPRESSION."""
    engagements: Records
    """Of ENGAGEMENT."""
    favourites: NDArray[np.int64]
    """(n, 2): viewers and their favourite authors, as they are at the end."""
    pulled: NDArray[np.int64]
    """Authors whose posts are pulled, as they are at the end."""

    def __post_init__(self) -> None:
        for records in (self.posts, self.impressions, self.engagements):
            if np.any(np.diff(records["at"]) < 0):
                raise ValueError("a log is in the order of time")

    @property
    def ends_at_ms(self) -> int:
        """The last time of which there is a record; 0 where there is none."""
        return max((int(r["at"][-1]) for r in (self.posts, self.impressions, self.engagements) if len(r)), default=0)


def in_time_order(records: Records) -> Records:
    """The same records as a Log has them; those of the same time stay in their order."""
    return records[np.argsort(records["at"], kind="stable")]


class Pseudonyms:
    """Stand for ids and topics in one log: the same for the same, and nothing to find the same out by from outside.

    They come of a key that nobody keeps.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def applied(self, log: Log) -> Log:
        """The log with every user, post and topic replaced."""
        posts, impressions, engagements = (r.copy() for r in (log.posts, log.impressions, log.engagements))
        for records, column in ((posts, "author"), (impressions, "viewer"), (engagements, "actor")):
            records[column] = self._replaced(records[column], self._user)
        for records in (posts, impressions, engagements):
            records["post"] = self._replaced(records["post"], self._post)
        posts["topics"] = self._replaced(posts["topics"], self._topic)
        return replace(
            log,
            posts=posts,
            impressions=impressions,
            engagements=engagements,
            favourites=self._replaced(log.favourites, self._user),
            pulled=self._replaced(log.pulled, self._user),
        )

    def _replaced(self, ids: NDArray[Any], one: Callable[[int], int]) -> NDArray[Any]:
        distinct, places = np.unique(ids, return_inverse=True)
        return np.array([one(int(i)) for i in distinct], dtype=ids.dtype)[places].reshape(ids.shape)

    def _user(self, user_id: int) -> int:
        return self._number(b"user", user_id) >> 1 | 1

    def _post(self, post_id: int) -> int:
        return self._number(b"post", post_id) >> 1 | 1

    def _topic(self, topic: int) -> int:
        return self._number(b"topic", topic) >> 32 | 1 if topic else 0

    def _number(self, kind: bytes, number: int) -> int:
        digest = blake2b(number.to_bytes(8, "big", signed=True), digest_size=8, key=self._key, person=kind).digest()
        return int.from_bytes(digest, "big")
