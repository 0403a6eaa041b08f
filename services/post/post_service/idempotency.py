"""Idempotency keys: a request with a key that was used before must be the request that it was used for."""

import hashlib
import json
from typing import NamedTuple

from feedkit.errors import FailedPrecondition

from post_service.post import Draft


class Key(NamedTuple):
    """An author's key and what it stands for."""

    author_id: int
    key: str
    fingerprint: bytes

    @classmethod
    def of(cls, draft: Draft, key: str) -> "Key":
        """The key as used for a draft."""
        return cls(draft.author_id, key, fingerprint(draft))


class Earlier(NamedTuple):
    """What a key was used for before."""

    fingerprint: bytes
    post_id: int


def fingerprint(draft: Draft) -> bytes:
    """32 bytes that two drafts of one author share only if they are the same."""
    # What replies to nothing is as it was before there were replies, so that keys from then are still known.
    parts = [draft.content, draft.media, *([draft.reply_to] if draft.reply_to else [])]
    canonical = json.dumps(parts, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()


def check_same(key: Key, earlier: Earlier) -> None:
    """Raise FailedPrecondition (IDEMPOTENCY_KEY_REUSED) where a key was used for something else."""
    if key.fingerprint != earlier.fingerprint:
        raise FailedPrecondition(
            "IDEMPOTENCY_KEY_REUSED", "idempotency_key: it was used for another post within the last 24 hours"
        )
