"""Announces the newest posts of pulled authors in Redis."""

import time
from collections.abc import Collection

from feedkit import keys
from feedkit.redis import Command, Redis


class RecentsStore:
    """Implements `post_events.Recents` and `settlement.Announcements`."""

    def __init__(self, redis: Redis, staleness_seconds: float) -> None:
        """`staleness_seconds` is how long a `timeline` may not know of a post that was announced."""
        self._redis = redis
        self._staleness_ms = int(staleness_seconds * 1000)
        self._unseen_until_ms = 0.0

    async def announce(self, author_ids: Collection[int]) -> None:
        """See `post_events.Recents`."""
        announced: list[Command] = [
            ("PUBLISH", keys.RECENTS_CHANGED, keys.encode_id(author_id)) for author_id in author_ids
        ]
        unseen: Command = ("SET", keys.PULLED_UNSEEN, 1, "PX", self._staleness_ms)
        await self._redis.run(*announced, unseen)
        self._unseen_until_ms = _now_ms() + self._staleness_ms

    async def unseen_ms(self) -> int:
        """See `settlement.Announcements`."""
        [left_ms] = await self._redis.run(("PTTL", keys.PULLED_UNSEEN))
        # Negative where there is no such key. What this process announced itself it knows even where the key has vanished.
        return max(left_ms, int(self._unseen_until_ms - _now_ms()), 0)


def _now_ms() -> float:
    return time.monotonic() * 1000
