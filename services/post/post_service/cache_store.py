"""What other services keep of posts in Redis: their bodies, and each author's newest for the author's own timeline."""

from collections.abc import Sequence

from feedkit import key_scripts, keys
from feedkit.invalidation import Invalidation


class CacheStore:
    """Implements `posts.Caches`. Each step is one round trip."""

    def __init__(self, invalidation: Invalidation, own_length: int) -> None:
        self._invalidation = invalidation
        self._own_length = own_length

    async def add(self, author_id: int, post_id: int) -> None:
        own, body = keys.own(author_id), keys.post(post_id)
        commands = [key_scripts.add_to_list(own, post_id, self._own_length), key_scripts.forget(body)]
        # Without the list its reader asks for the truth.
        await self._invalidation.change(commands, stale=[own, body])

    async def forget_body(self, post_id: int) -> None:
        await self._invalidation.forget(keys.post(post_id))

    async def forget(self, author_id: int, post_ids: Sequence[int]) -> None:
        # A list without them is read anew from the truth: nothing takes a single post out of one.
        await self._invalidation.forget(keys.own(author_id), *map(keys.post, post_ids))
