"""The newest posts of pulled authors in Redis, and their announcement."""

import time
from collections.abc import Mapping, Sequence

from feedkit import key_scripts, keys
from feedkit.redis import Command, Redis


class RecentsStore:
    """Implements `post_events.Recents` and `settlement.Announcements`."""

    def __init__(self, redis: Redis, length: int, staleness_seconds: float) -> None:
        """`length` is the most posts kept of an author; `staleness_seconds` how long a `timeline` may not know of one."""
        self._redis = redis
        self._length = length
        self._staleness_ms = int(staleness_seconds * 1000)
        self._unseen_until_ms = 0.0

    async def announce(self, posts: Mapping[int, Sequence[int]]) -> None:
        """See `post_events.Recents`."""
        added = [
            key_scripts.add_to_list(keys.recents(author_id), post_id, self._length)
            for author_id, post_ids in posts.items()
            for post_id in post_ids
        ]
        announced: list[Command] = [("PUBLISH", keys.RECENTS_CHANGED, keys.encode_id(author_id)) for author_id in posts]
        unseen: Command = ("SET", keys.PULLED_UNSEEN, 1, "PX", self._staleness_ms)
        await self._redis.run(*added, *announced, unseen)
        self._unseen_until_ms = _now_ms() + self._staleness_ms

    async def unseen_ms(self) -> int:
        """See `settlement.Announcements`."""
        [left_ms] = await self._redis.run(("PTTL", keys.PULLED_UNSEEN))
        # Negative where there is no such key. What this process announced itself it knows even where the key has vanished.
        return max(left_ms, int(self._unseen_until_ms - _now_ms()), 0)


def _now_ms() -> float:
    return time.monotonic() * 1000
