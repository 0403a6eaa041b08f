"""Kept orders in Redis. The layout of the key is told in `feedkit.feature_keys`, that of an order in `orders`."""

from feedkit import feature_keys, key_scripts, keys
from feedkit.redis import Redis

from timeline_service.home_store import answers, decoded_context
from timeline_service.orders import KeptOrder
from timeline_service.ranked import Found


class OrderStore:
    """See `ranked.OrderStore`."""

    def __init__(self, redis: Redis, *, most: int, life_ms: int) -> None:
        """`most` orders are kept of a viewer, and `life_ms` from the latest on."""
        self._redis = redis
        self._most = most
        self._life_ms = life_ms

    async def keep(self, viewer_id: int, snapshot: bytes, order: KeptOrder) -> None:
        """See `ranked.OrderStore`."""
        command = feature_keys.keep_order(viewer_id, snapshot, order.pack(), self._most, self._life_ms)
        await answers(self._redis, command)

    async def find(self, viewer_id: int, snapshot: bytes) -> Found:
        """See `ranked.OrderStore`."""
        context, orders = await answers(
            self._redis, key_scripts.get(keys.context(viewer_id)), key_scripts.get(feature_keys.orders(viewer_id))
        )
        packed = feature_keys.find_order(orders, snapshot)
        return Found(decoded_context(context), None if packed is None else KeptOrder.unpack(packed))
