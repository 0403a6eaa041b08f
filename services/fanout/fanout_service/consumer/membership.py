"""A process's place in a consumer group: the partitions that it holds, and what it has handled of them."""

import itertools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.aio import AIOConsumer
from feedkit.kafka import KafkaSettings

from fanout_service.config import ConsumerSettings
from fanout_service.consumer.records import Record

logger = logging.getLogger(__name__)

BUFFERED_KIB = 8192
"""How much is fetched ahead."""
THREADS = 2
"""The library blocks, and its callbacks call it again."""


def broker_configuration(settings: KafkaSettings) -> dict[str, Any]:
    """How librdkafka reaches the broker."""
    return {
        "bootstrap.servers": settings.kafka_brokers,
        "reconnect.backoff.max.ms": 1000,
        "socket.timeout.ms": 10_000,
        "logger": logging.getLogger("librdkafka"),
        # It repeats at every attempt that a broker is away, which is told by whoever needs it.
        "log_level": 2,
    }


def _configuration(settings: ConsumerSettings, group: str) -> dict[str, Any]:
    return {
        **broker_configuration(settings),
        "group.id": group,
        # A group that has committed nothing yet, or a new partition, begins with the first record there is.
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": int(settings.kafka_session_seconds * 1000),
        "heartbeat.interval.ms": int(settings.kafka_session_seconds * 1000 / 3),
        # It polls about every second whatever it does, so this is for what hangs. It also bounds how long an answer to a
        # join is waited for, which a coordinator that lost the question never gives: 300 s if nothing is said.
        "max.poll.interval.ms": int(settings.kafka_session_seconds * 1000 * 2),
        "fetch.wait.max.ms": settings.kafka_fetch_wait_ms,
        "queued.max.messages.kbytes": BUFFERED_KIB,
        # So soon new partitions are found.
        "topic.metadata.refresh.interval.ms": 10_000,
    }


class Membership:
    """Takes records of one topic. Its methods are called one after another, never at the same time."""

    def __init__(self, settings: ConsumerSettings, topic: str, group: str) -> None:
        self._topic = topic
        configuration = {**_configuration(settings, group), "error_cb": self._complain}
        self._consumer = AIOConsumer(configuration, max_workers=THREADS)
        self._complaints: set[int] = set()
        self._tenures: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._paused: set[int] = set()
        self._gained_since = False
        self._early: list[Record] = []
        self._handled: dict[int, int] = {}

    async def join(self) -> None:
        """Ask for a share of the topic's partitions."""
        await self._consumer.subscribe(
            [self._topic], on_assign=self._gained, on_revoke=self._gave_up, on_lost=self._gave_up
        )

    async def take(self, most: int, seconds: float) -> list[Record]:
        """The next records, at least one as soon as there is one; none where nothing came for so long."""
        if self._paused or self._gained_since:
            await self._resume()
        if self._early:
            taken, self._early = self._early[:most], self._early[most:]
            return taken
        first = await self._consumer.poll(seconds)
        if first is None:
            return []
        # Whatever else is here already. The call would wait for the last one, were it given time.
        rest: list[Message] = await self._consumer.consume(most - 1, 0) if most > 1 else []
        return await self._records([first, *rest])

    async def keep(self) -> None:
        """Show the group that this process lives, while it works on what it has taken; nothing more is taken."""
        held = [place for place in await self._consumer.assignment() if place.partition not in self._paused]
        if held:
            await self._consumer.pause(held)
            self._paused.update(place.partition for place in held)
        # A partition that came just now may give a record before it is paused.
        message = await self._consumer.poll(0)
        if message is not None:
            self._early += await self._records([message])

    async def _resume(self) -> None:
        # All that are held: the library remembers a pause of a partition that was taken away, until it comes back.
        self._gained_since = False
        self._paused.clear()
        if held := await self._consumer.assignment():
            await self._consumer.resume(held)

    def holds(self, record: Record) -> bool:
        """Whether the partition is still held, without a break, since the record was taken."""
        return self._tenures.get(record.partition) == record.tenure

    async def commit(self, handled: Iterable[Record] = ()) -> None:
        """Commit what has been handled, as far as it is still this process's. What fails is committed by the next call."""
        for record in handled:
            if self.holds(record):
                self._handled[record.partition] = max(self._handled.get(record.partition, 0), record.offset + 1)
        if not self._handled:
            return
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in self._handled.items()]
        try:
            committed = await self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            logger.warning("not committed: %s", error, extra={"topic": self._topic})
            return
        for place in committed or ():
            if place.error is not None:
                logger.warning("not committed: %s", place.error, extra={"topic": self._topic})
            else:
                self._handled.pop(place.partition, None)

    async def leave(self) -> None:
        """Leave the group, so that others go on at once, where this process stopped."""
        try:
            await self.commit()
        finally:
            await self._consumer.close()

    async def _records(self, messages: Sequence[Message]) -> list[Record]:
        records: list[Record] = []
        for message in messages:
            error = message.error()
            if error is None:
                self._complaints.clear()
                records.append(Record.of(message, self._tenures.get(message.partition() or 0, 0)))
            elif error.fatal():
                raise KafkaException(error)
            else:
                await self._complain(error)
        return records

    # --- called by the library, from within the calls above -----------------------------------------------------------

    async def _complain(self, error: KafkaError) -> None:
        if error.code() not in self._complaints:
            # Said once, not at every attempt, until a record comes again.
            self._complaints.add(error.code())
            logger.warning("kafka: %s", error.str(), extra={"topic": self._topic})

    async def _gained(self, _consumer: AIOConsumer, places: Sequence[TopicPartition]) -> None:
        self._gained_since = True
        for place in places:
            self._tenures[place.partition] = next(self._numbers)

    async def _gave_up(self, _consumer: AIOConsumer, places: Sequence[TopicPartition]) -> None:
        gone = {place.partition for place in places}
        for partition in gone:
            self._tenures.pop(partition, None)
            self._handled.pop(partition, None)
        self._paused -= gone
        self._early = [record for record in self._early if record.partition not in gone]
