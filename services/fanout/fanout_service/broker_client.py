"""Work that is left for all processes, as Kafka records."""

import zlib
from collections.abc import Sequence

from feed.events.v1 import events_pb2
from feedkit import kafka
from feedkit.kafka import Producer
from google.protobuf import message as protobuf

from fanout_service.events import AnyWish, Chunk, Wish


class ChunkTopic:
    """Implements `delivery.Chunks`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def leave(self, work: Sequence[Chunk]) -> None:
        """See `delivery.Chunks`."""
        await self._producer.send_many(kafka.FANOUT_CHUNKS, [_keyed(chunk) for chunk in work])


class WishTopic:
    """Implements `wishes.Wishes`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def leave(self, work: Sequence[AnyWish]) -> None:
        """See `wishes.Wishes`."""
        await self._producer.send_many(kafka.RECONCILE, [_wish(wish) for wish in work])


def _keyed(chunk: Chunk) -> tuple[int, events_pb2.FanoutChunk]:
    # By content: the chunks of one post spread over all partitions, and a chunk that is left again goes where it went. What
    # is withdrawn from the same followers comes after it.
    content = _chunk(chunk._replace(withdrawn=False)).SerializeToString(deterministic=True)
    return zlib.crc32(content), _chunk(chunk)


def _chunk(chunk: Chunk) -> events_pb2.FanoutChunk:
    return events_pb2.FanoutChunk(**chunk._asdict())


def _wish(wish: AnyWish) -> tuple[int, protobuf.Message]:
    # By whose timeline or account it is, so that what concerns one user is done by one process, one after another.
    if isinstance(wish, Wish):
        return wish.viewer_id, events_pb2.ReconcileWish(viewer_id=wish.viewer_id, author_id=wish.author_id)
    return wish.user_id, events_pb2.EraseWish(user_id=wish.user_id)
