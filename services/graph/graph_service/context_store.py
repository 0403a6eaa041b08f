"""The contexts of viewers as `timeline` keeps them in Redis. This service only ever deletes them."""

from feedkit import keys
from feedkit.invalidation import Invalidation


class ContextStore:
    """Implements `follows.CachedContexts`."""

    def __init__(self, invalidation: Invalidation) -> None:
        self._invalidation = invalidation

    async def forget(self, viewer_id: int) -> None:
        await self._invalidation.forget(keys.context(viewer_id))
