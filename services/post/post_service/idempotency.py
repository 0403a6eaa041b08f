"""Idempotency keys: a request with a key that was used before must be the request that it was used for."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from feedkit.errors import FailedPrecondition, FeedError

from post_service.post import Draft

logger = logging.getLogger(__name__)

PURGE_BATCH = 1000
"""How many expired keys one statement removes, so that none holds its locks for long."""


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
    canonical = json.dumps([draft.content, draft.media], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()


def check_same(key: Key, earlier: Earlier) -> None:
    """Raise FailedPrecondition (IDEMPOTENCY_KEY_REUSED) where a key was used for something else."""
    if key.fingerprint != earlier.fingerprint:
        raise FailedPrecondition(
            "IDEMPOTENCY_KEY_REUSED", "idempotency_key: it was used for another post within the last 24 hours"
        )


async def purge(remove: Callable[[int], Awaitable[int]], every_seconds: float) -> None:
    """Remove expired keys for ever: `remove` takes at most so many away and returns how many there were.

    A failure is logged and tried again at the next turn; an expired key does no harm, it only takes up room.
    """
    while True:
        await asyncio.sleep(every_seconds)
        try:
            while await remove(PURGE_BATCH) == PURGE_BATCH:
                continue
        except FeedError as error:
            logger.warning("expired idempotency keys were not removed: %s", error)
        except Exception:
            logger.exception("expired idempotency keys were not removed")
