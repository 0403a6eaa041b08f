"""Home timelines in Redis; `feedkit.keys` tells their layout."""

import logging
import time
from collections.abc import Callable, Sequence

from feedkit import key_scripts, keys, telemetry
from feedkit.cursor import created_at_ms, first_id_at
from feedkit.redis import Redis
from redis.exceptions import ResponseError

from fanout_service.timelines import Entry, State

logger = logging.getLogger(__name__)

CLOCKS_APART_MS = 60_000
"""More than the clocks of those who make ids are ahead of ours. A horizon in the future promises nothing yet, and makes
room for a true one when the rebuild ends."""
MS_A_DAY = 86_400_000


class TimelineStore:
    """Implements `timelines.Timelines`."""

    def __init__(self, redis: Redis, *, length: int, life_days: int, clock: Callable[[], float] = time.time) -> None:
        """`length` is the most entries of a timeline; `clock` gives Unix seconds."""
        self._redis = redis
        self._length = length
        self._life_ms = life_days * MS_A_DAY
        self._clock = clock
        self._deliveries = telemetry.counter(
            "feed.fanout.deliveries", unit="{delivery}", description="Posts that were added to timelines."
        )
        self._delays = telemetry.durations(
            "feed.fanout.delivery.delay", description="How old posts were when a batch of timelines had them."
        )

    async def push(self, viewer_ids: Sequence[int], entries: Sequence[Entry]) -> None:
        """See `timelines.Timelines`."""
        packed = keys.encode_entries(entries)
        pushes = [key_scripts.push(viewer_id, packed, self._length) for viewer_id in viewer_ids]
        there_was_one = await self._redis.run(*pushes)
        self._deliveries.add(sum(map(bool, there_was_one)) * len(entries))
        for entry in entries:
            self._delays.record(max(0.0, self._clock() - created_at_ms(entry.post_id) / 1000))

    async def withdraw(self, viewer_ids: Sequence[int], post_ids: Sequence[int]) -> None:
        """See `timelines.Timelines`."""
        await self._redis.run(*[key_scripts.withdraw(viewer_id, post_ids) for viewer_id in viewer_ids])

    async def state(self, viewer_id: int) -> State | None:
        """See `timelines.Timelines`."""
        try:
            [raw] = await self._redis.run(key_scripts.read_timeline(viewer_id, 0))
        except ResponseError:
            logger.exception("a timeline in Redis was not written by us", extra={"viewer_id": viewer_id})
            await self._redis.run(key_scripts.delete_timeline(viewer_id))
            return None
        tail = keys.decode_timeline(raw)
        return None if tail is None else State(tail.trailer.horizon, tail.trailer.epoch)

    async def begin_anew(self, viewer_id: int) -> None:
        """See `timelines.Timelines`."""
        horizon = first_id_at(int(self._clock() * 1000) + CLOCKS_APART_MS)
        await self._redis.run(
            key_scripts.delete_timeline(viewer_id), key_scripts.create_timeline(viewer_id, horizon, self._life_ms)
        )

    async def remove(self, viewer_id: int) -> None:
        """See `timelines.Timelines`."""
        await self._redis.run(key_scripts.delete_timeline(viewer_id))

    async def rebuild(self, viewer_id: int, epoch: bytes, entries: Sequence[Entry], left_out: int) -> bool:
        """See `timelines.Timelines`."""
        packed = keys.encode_entries(entries)
        [done] = await self._redis.run(key_scripts.rebuild(viewer_id, epoch, left_out, packed, self._length))
        return bool(done)

    async def add_author(
        self, viewer_id: int, epoch: bytes, author_id: int, entries: Sequence[Entry], left_out: int
    ) -> bool:
        """See `timelines.Timelines`."""
        packed = keys.encode_entries(entries)
        command = key_scripts.add_author(viewer_id, epoch, author_id, left_out, packed, self._length)
        [done] = await self._redis.run(command)
        return bool(done)

    async def remove_author(self, viewer_id: int, epoch: bytes, author_id: int) -> bool:
        """See `timelines.Timelines`."""
        [done] = await self._redis.run(key_scripts.remove_author(viewer_id, epoch, author_id, self._length))
        return bool(done)
