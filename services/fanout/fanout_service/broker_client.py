"""Work that is left for all processes, as Kafka records."""

import zlib
from collections.abc import Sequence

from feed.events.v1 import events_pb2
from feedkit import kafka
from feedkit.kafka import Producer

from fanout_service.events import Chunk, Wish


class ChunkTopic:
    """Implements `delivery.Chunks`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def leave(self, work: Sequence[Chunk]) -> None:
        """See `delivery.Chunks`."""
        await self._producer.send_many(kafka.FANOUT_CHUNKS, [_keyed(chunk) for chunk in work])


class WishTopic:
    """Implements `follow_events.Wishes`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def leave(self, work: Sequence[Wish]) -> None:
        """See `follow_events.Wishes`."""
        await self._producer.send_many(kafka.RECONCILE, [(wish.viewer_id, _wish(wish)) for wish in work])


def _keyed(chunk: Chunk) -> tuple[int, events_pb2.FanoutChunk]:
    message = events_pb2.FanoutChunk(post_id=chunk.post_id, author_id=chunk.author_id, follower_ids=chunk.follower_ids)
    # By content: the chunks of one post spread over all partitions, and a chunk that is left again goes where it went.
    return zlib.crc32(message.SerializeToString(deterministic=True)), message


def _wish(wish: Wish) -> events_pb2.ReconcileWish:
    return events_pb2.ReconcileWish(viewer_id=wish.viewer_id, author_id=wish.author_id)
