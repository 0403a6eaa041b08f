"""What authors wrote before, brought into home timelines in Redis."""

from collections.abc import Collection, Sequence

from feedkit import key_scripts, keys
from feedkit.redis import Redis

from fanout_service.timelines import Entry, Share


class HistoryStore:
    """Implements `leaving.Histories`."""

    def __init__(self, redis: Redis, *, length: int) -> None:
        """`length` is the most entries of a timeline."""
        self._redis = redis
        self._length = length

    def new_epoch(self) -> bytes:
        """See `leaving.Histories`."""
        return key_scripts.new_epoch()

    async def push_history(self, viewer_ids: Sequence[int], history: Share, epoch: bytes) -> None:
        """See `leaving.Histories`."""
        packed = keys.encode_entries(history.entries)
        await self._redis.run(
            *[
                key_scripts.push_history(viewer_id, epoch, history.left_out, packed, self._length)
                for viewer_id in viewer_ids
            ]
        )

    async def push_since(
        self, viewer_ids: Sequence[int], before: bytes, entries: Sequence[Entry], epoch: bytes
    ) -> Collection[int]:
        """See `leaving.Histories`."""
        packed = keys.encode_entries(entries)
        pushed = await self._redis.run(
            *[key_scripts.push_since(viewer_id, before, epoch, packed, self._length) for viewer_id in viewer_ids]
        )
        return {viewer_id for viewer_id, done in zip(viewer_ids, pushed, strict=True) if not done}
