"""The contexts of viewers as `timeline` keeps them in Redis. This service only ever deletes them."""

import asyncio
import logging

from feedkit import deadline, key_scripts, keys
from feedkit.errors import DeadlineExceeded, Unavailable
from feedkit.redis import Redis

logger = logging.getLogger(__name__)

ATTEMPTS = 2
ATTEMPT_SECONDS = 0.3
PAUSE_SECONDS = 0.05
"""Between attempts: for a server that has just been restarted."""


class ContextStore:
    """Implements `follows.CachedContexts`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def forget(self, viewer_id: int) -> None:
        delete = key_scripts.forget(keys.context(viewer_id))
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with deadline.within(ATTEMPT_SECONDS):
                    await self._redis.run(delete)
                return
            except (Unavailable, DeadlineExceeded) as error:
                if attempt == ATTEMPTS:
                    logger.warning("the context of viewer %d was not deleted: %s", viewer_id, error)
                else:
                    await asyncio.sleep(PAUSE_SECONDS)
