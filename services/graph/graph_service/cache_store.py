"""What other services keep of users in Redis. This service only ever deletes it."""

from collections.abc import Sequence

from feedkit import keys
from feedkit.invalidation import Invalidation


class CacheStore:
    """Implements `caches.Caches`."""

    def __init__(self, invalidation: Invalidation) -> None:
        self._invalidation = invalidation

    async def forget(
        self, *, contexts: Sequence[int] = (), hidden: Sequence[int] = (), users: Sequence[int] = ()
    ) -> None:
        await self._invalidation.forget(*map(keys.context, contexts), *map(keys.hidden, hidden), *map(keys.user, users))
