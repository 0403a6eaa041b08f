"""What other services keep of posts in Redis: their bodies, and each author's newest for the author's own timeline."""

import asyncio
import logging

from feedkit import deadline, key_scripts, keys
from feedkit.errors import DeadlineExceeded, Unavailable
from feedkit.redis import Command, Redis

logger = logging.getLogger(__name__)

ATTEMPT_SECONDS = 0.3
PAUSE_SECONDS = 0.05
"""Between two attempts: for a server that has just been restarted."""


class CacheStore:
    """Implements `posts.Caches`. Each step is one round trip."""

    def __init__(self, redis: Redis, own_length: int) -> None:
        self._redis = redis
        self._own_length = own_length

    async def add(self, author_id: int, post_id: int) -> None:
        own, forgotten = keys.own(author_id), key_scripts.forget(keys.post(post_id))
        if not await self._done(key_scripts.add_to_list(own, post_id, self._own_length), forgotten):
            # Without the list its reader asks for the truth. It can be deleted even where Redis is too full to add to it.
            await self._once_more(post_id, key_scripts.forget(own), forgotten)

    async def forget(self, post_id: int) -> None:
        forgotten = key_scripts.forget(keys.post(post_id))
        if not await self._done(forgotten):
            await self._once_more(post_id, forgotten)

    async def _once_more(self, post_id: int, *commands: Command) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        if not await self._done(*commands):
            logger.warning("what caches hold of post %d may be out of date until its event is handled", post_id)

    async def _done(self, *commands: Command) -> bool:
        try:
            with deadline.within(ATTEMPT_SECONDS):
                await self._redis.run(*commands)
        except (Unavailable, DeadlineExceeded) as error:
            logger.info("a change was not told to the caches: %s", error)
            return False
        return True
