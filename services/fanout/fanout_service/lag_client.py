"""How far the consumers are behind, asked of the broker: what it has, less what they have committed."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition
from feedkit.errors import Unavailable

from fanout_service.settlement import Work

SECONDS = 2.0
"""How long the broker may take for one answer."""
# As times, by Kafka's protocol.
_END = -1
_BEGINNING = -2


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
    """Implements `settlement.Lag`. Every answer is the broker's of now, for all processes together.

    It asks as a consumer of each group that subscribes to nothing, and so takes no part in the group. The library's
    administrator could ask the same, but aborts the process where a broker goes away meanwhile (librdkafka's issue 4605).
    """

    def __init__(self, configuration: Mapping[str, Any], subscriptions: Mapping[Work, Subscription]) -> None:
        """`configuration` is how librdkafka reaches the broker."""
        self._configuration = dict(configuration)
        self._subscriptions = subscriptions
        self._askers = {
            subscription.group: self._consumer(subscription.group) for subscription in subscriptions.values()
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up the connections."""
        await asyncio.gather(*(asyncio.to_thread(asker.close) for asker in self._askers.values()))

    def _consumer(self, group: str) -> Consumer:
        return Consumer({**self._configuration, "group.id": group, "enable.auto.commit": False})

    async def of(self, *work: Work) -> int:
        """See `settlement.Lag`. Raises Unavailable where the broker does not answer."""
        return sum(backlog.end - backlog.begin for backlog in await self._ask(work))

    async def handled(self, work: Work) -> int:
        """See `settlement.Lag`. Raises Unavailable where the broker does not answer."""
        return sum(backlog.begin for backlog in await self._ask([work]))

    async def written(self, work: Work) -> int:
        """See `settlement.Lag`. Raises Unavailable where the broker does not answer."""
        return sum(backlog.end for backlog in await self._ask([work]))

    async def oldest_ms(self, *work: Work) -> int:
        """The age of the oldest record that is not handled, in milliseconds; 0 if all are.

        Raises Unavailable where the broker does not answer, or does not show any of those records.
        """
        backlogs = [backlog for backlog in await self._ask(work) if backlog.end > backlog.begin]
        if not backlogs:
            return 0
        written = await asyncio.to_thread(self._first_timestamps, backlogs)
        if not written:
            raise Unavailable.of_dependency("kafka", "does not tell how old what it has is")
        return max(0, int(time.time() * 1000) - min(written))

    async def _ask(self, work: Iterable[Work]) -> list[_Backlog]:
        try:
            return await asyncio.to_thread(self._backlogs, [self._subscriptions[kind] for kind in work])
        except KafkaException as error:
            raise Unavailable.of_dependency("kafka") from error

    # --- on threads, because the library blocks ----------------------------------------------------------------------

    def _backlogs(self, subscriptions: Iterable[Subscription]) -> list[_Backlog]:
        return [backlog for subscription in subscriptions for backlog in self._backlogs_of(subscription)]

    def _backlogs_of(self, subscription: Subscription) -> list[_Backlog]:
        asker = self._askers[subscription.group]
        # The ends first: what came before this question is handled where the answer says that nothing is left.
        partitions = _partitions(asker, subscription.topic)
        ends = _offsets(asker, partitions, _END)
        beginnings = _offsets(asker, partitions, _BEGINNING)
        committed = asker.committed(partitions, SECONDS)
        backlogs: list[_Backlog] = []
        for place in committed:
            if place.error is not None:
                raise KafkaException(place.error)
            end = ends[place.partition]
            # Negative where nothing was ever committed; below the beginning where records have expired.
            begin = max(place.offset, beginnings[place.partition])
            backlogs.append(_Backlog(subscription.topic, place.partition, min(begin, end), end))
        return backlogs

    def _first_timestamps(self, backlogs: Iterable[_Backlog]) -> list[int]:
        """When the first record of each was written, in Unix milliseconds."""
        missing = {(backlog.topic, backlog.partition): backlog.begin for backlog in backlogs}
        # It reads what it is assigned, and neither joins the group nor commits.
        reader = self._consumer("feed.fanout.status")
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


def _partitions(asker: Consumer, topic: str) -> list[TopicPartition]:
    known = asker.list_topics(topic, SECONDS).topics[topic]
    if known.error is not None:
        raise KafkaException(known.error)
    return [TopicPartition(topic, partition) for partition in known.partitions]


def _offsets(asker: Consumer, partitions: Iterable[TopicPartition], time_or_end: int) -> dict[int, int]:
    """The offset of every partition at a time, or at its beginning or end."""
    asked = [TopicPartition(place.topic, place.partition, time_or_end) for place in partitions]
    answers: list[TopicPartition] = asker.offsets_for_times(asked, SECONDS)
    for place in answers:
        if place.error is not None:
            raise KafkaException(place.error)
    return {place.partition: place.offset for place in answers}
