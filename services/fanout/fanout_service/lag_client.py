"""How far the consumers are behind, asked of the broker: what it has, less what they have committed."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition, admin
from feedkit.errors import Unavailable

from fanout_service.settlement import Work

SECONDS = 2.0
"""How long the broker may take for one answer."""
_LATEST: object = cast("Any", admin).OffsetSpec.latest()
_EARLIEST: object = cast("Any", admin).OffsetSpec.earliest()


class Subscription(NamedTuple):
    """A topic, and the consumer group that handles it."""

    topic: str
    group: str


class _Backlog(NamedTuple):
    """The part of a partition that is not handled."""

    topic: str
    partition: int
    begin: int
    end: int


class LagClient:
    """Implements `settlement.Lag`. Every answer is the broker's of now, for all processes together."""

    def __init__(self, configuration: Mapping[str, Any], subscriptions: Mapping[Work, Subscription]) -> None:
        """`configuration` is how librdkafka reaches the broker."""
        self._configuration = dict(configuration)
        self._subscriptions = subscriptions
        # Typed as Any, because the types that it is published with leave out what its answers hold.
        self._admin: Any = admin.AdminClient(dict(configuration))

    async def of(self, *work: Work) -> int:
        """See `settlement.Lag`. Raises Unavailable where the broker does not answer."""
        return sum(backlog.end - backlog.begin for backlog in await self._ask(work))

    async def oldest_ms(self, *work: Work) -> int:
        """The age of the oldest record that is not handled, in milliseconds; 0 if all are."""
        backlogs = [backlog for backlog in await self._ask(work) if backlog.end > backlog.begin]
        if not backlogs:
            return 0
        written = await asyncio.to_thread(self._first_timestamps, backlogs)
        return max(0, int(time.time() * 1000) - min(written)) if written else 0

    async def _ask(self, work: Iterable[Work]) -> list[_Backlog]:
        try:
            return await asyncio.to_thread(self._backlogs, [self._subscriptions[kind] for kind in work])
        except KafkaException as error:
            raise Unavailable.of_dependency("kafka") from error

    # --- on threads, because the library blocks ----------------------------------------------------------------------

    def _backlogs(self, subscriptions: Iterable[Subscription]) -> list[_Backlog]:
        return [backlog for subscription in subscriptions for backlog in self._backlogs_of(subscription)]

    def _backlogs_of(self, subscription: Subscription) -> list[_Backlog]:
        # The ends first: what came before this question is handled where the answer says that nothing is left.
        partitions = self._partitions(subscription.topic)
        ends = self._offsets(partitions, _LATEST)
        committed = self._committed(subscription.group, partitions)
        beginnings = self._offsets(partitions, _EARLIEST)
        backlogs: list[_Backlog] = []
        for partition, end in ends.items():
            # Negative where nothing was ever committed; below the beginning where records have expired.
            begin = max(committed.get(partition, 0), beginnings[partition])
            backlogs.append(_Backlog(subscription.topic, partition, min(begin, end), end))
        return backlogs

    def _partitions(self, topic: str) -> list[TopicPartition]:
        known = self._admin.list_topics(topic, timeout=SECONDS).topics[topic]
        if known.error is not None:
            raise KafkaException(known.error)
        return [TopicPartition(topic, partition) for partition in known.partitions]

    def _offsets(self, partitions: Iterable[TopicPartition], which: object) -> dict[int, int]:
        asked = self._admin.list_offsets(dict.fromkeys(partitions, which), request_timeout=SECONDS)
        return {partition.partition: future.result().offset for partition, future in asked.items()}

    def _committed(self, group: str, partitions: list[TopicPartition]) -> dict[int, int]:
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=SECONDS
        )
        return {partition.partition: partition.offset for partition in asked[group].result().topic_partitions}

    def _first_timestamps(self, backlogs: Iterable[_Backlog]) -> list[int]:
        """When the first record of each was written, in Unix milliseconds."""
        missing = {(backlog.topic, backlog.partition): backlog.begin for backlog in backlogs}
        # It reads what it is assigned, and neither joins the group nor commits.
        reader = Consumer({**self._configuration, "group.id": "feed.fanout.status", "enable.auto.commit": False})
        try:
            reader.assign([TopicPartition(*place, offset) for place, offset in missing.items()])
            written: list[int] = []
            give_up = time.monotonic() + SECONDS
            while missing and time.monotonic() < give_up:
                message = cast("Any", reader.poll(0.1))
                if not message or message.error():
                    continue
                if missing.pop((message.topic(), message.partition()), None) is not None:
                    written.append(message.timestamp()[1])
            return written
        finally:
            reader.close()
