"""Kafka: topics, and a producer that returns when the broker has acknowledged, traced, whose failures are domain errors.

The client library works on threads of its own. One thread here takes its reports and hands them to the event loop, a
whole round of them at a time.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from google.protobuf.message import Message
from opentelemetry.trace import Span
from pydantic import Field

from feedkit import telemetry
from feedkit.config import PREFIX, ConfigurationError, Settings
from feedkit.errors import Unavailable

logger = logging.getLogger(__name__)

POST_EVENTS = "feed.post.events.v1"
GRAPH_EVENTS = "feed.graph.events.v1"
FANOUT_CHUNKS = "feed.fanout.chunks.v1"
RECONCILE = "feed.reconcile.v1"
ENGAGEMENT_EVENTS = "feed.engagement.events.v1"
DEAD_LETTERS = "feed.dlq.v1"
TOPICS = frozenset({POST_EVENTS, GRAPH_EVENTS, ENGAGEMENT_EVENTS, FANOUT_CHUNKS, RECONCILE, DEAD_LETTERS})

SCHEMA_VERSION = "1"
"""The version of the messages of `feed.events.v1`, in the header `schema-version` of each record."""

CLOSE_SECONDS = 3.0
"""How long the end of a process waits for records on their way."""
CHECK_SECONDS = 1.5
"""How long a readiness check waits for the brokers."""
_POLL_SECONDS = 0.1
_FULL_SECONDS = 0.01

# Whoever sends such a record again is refused again.
_REFUSALS = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_RECORD}


class KafkaSettings(Settings):
    """Settings of a process that uses Kafka."""

    kafka_brokers: str = Field(
        pattern=r"^([^:,\s]+:[0-9]{1,5}(,[^:,\s]+:[0-9]{1,5})*)?$",
        description="Kafka brokers to ask first, `host:port,host:port`. May be empty only in the relays, and only where "
        "`FEED_CELEBRITY_THRESHOLD` is 0: they then throw events away, because nobody needs them.",
    )
    kafka_delivery_seconds: float = Field(
        default=5.0, ge=0.1, description="How long a record may be on its way before it counts as not sent."
    )


class RecordRefused(Exception):
    """A record that Kafka will never take, however often it is sent: it is too large, or malformed."""


class Record(NamedTuple):
    """A record to send."""

    topic: str
    key: str
    value: bytes
    headers: Mapping[str, str]
    """A `traceparent` among them is the parent of the record's own span, in whose name it is sent."""


def record(topic: str, key: int | str, message: Message, trace: Mapping[str, str]) -> Record:
    """A message as a record of the project's shape, sent on behalf of a trace in W3C headers."""
    return typed_record(topic, str(key), message.DESCRIPTOR.full_name, message.SerializeToString(), trace)


def typed_record(topic: str, key: str, type_name: str, value: bytes, trace: Mapping[str, str]) -> Record:
    """The same from a message that is serialized already; `type_name` is its full name."""
    return Record(topic, key, value, {"type": type_name, "schema-version": SCHEMA_VERSION, **trace})


class Producer:
    """Sends records. Those of one key keep the order in which they were sent."""

    def __init__(self, settings: KafkaSettings, *, patient: bool) -> None:
        self._configuration = _configuration(settings, patient)
        self._full_seconds = float("inf") if patient else settings.kafka_delivery_seconds
        self._loop = asyncio.get_running_loop()
        self._reports: deque[tuple[_Delivery, int, KafkaError | None]] = deque()
        self._complaints: set[int] = set()
        self._closing = False
        self._sent = _Sent()
        self._replacing = Lock()
        self._client = self._connect()
        self._thread = Thread(target=self._serve, name="kafka-producer", daemon=True)
        self._thread.start()

    async def send(self, topic: str, key: int | str, message: Message) -> None:
        """Send a message; return when the broker has acknowledged it. Raises Unavailable."""
        await self.send_many(topic, [(key, message)])

    async def send_many(self, topic: str, messages: Sequence[tuple[int | str, Message]]) -> None:
        """Send messages with their keys; return when the broker has acknowledged all of them.

        Raises Unavailable where it did not acknowledge one; it may have taken others.
        """
        trace: dict[str, str] = {}
        telemetry.inject(trace)
        _require(await self.send_records([record(topic, key, message, trace) for key, message in messages]))

    async def send_record(self, topic: str, key: str, value: bytes, headers: Mapping[str, str]) -> None:
        """Send a record as it is; return when the broker has acknowledged it. Raises Unavailable or RecordRefused."""
        _require(await self.send_records([Record(topic, key, value, headers)]))

    async def send_records(self, records: Sequence[Record]) -> list[Exception | None]:
        """Send records, and tell of each what became of it: None where the broker has acknowledged it.

        Those that failed, or whose sending is cancelled, may still arrive.
        """
        delivery = _Delivery(self._loop, len(records))
        spans: list[Span] = []
        try:
            for index, one in enumerate(records):
                span, one_with_trace = _depart(one)
                spans.append(span)
                await self._enqueue(one_with_trace, delivery, index)
            outcomes = await delivery.outcomes
            self._sent.count(records, outcomes)
            return outcomes
        finally:
            for span, outcome in zip(spans, delivery.known, strict=False):
                if outcome is not None:
                    telemetry.fail(span, outcome)
                span.end()

    def withdraw(self) -> None:
        """Give up all that is on its way. It counts as not sent; some of it may arrive all the same."""
        with self._replacing:
            self._client.purge(blocking=False)

    async def check(self) -> None:
        """A readiness check: raise Unavailable where the brokers do not answer, or do not know the project's topics."""
        try:
            known = await asyncio.to_thread(self._client.list_topics, timeout=CHECK_SECONDS)
        except KafkaException as error:
            raise Unavailable.of_dependency("kafka") from error
        if missing := TOPICS - known.topics.keys():
            raise Unavailable.of_dependency("kafka", f"has no topic {', '.join(sorted(missing))}")

    async def close(self) -> None:
        """Wait, for a bounded time, for what is on its way, and give up the rest."""
        await asyncio.to_thread(self._client.flush, CLOSE_SECONDS)
        self.withdraw()
        await asyncio.to_thread(self._client.flush, _POLL_SECONDS)
        self._closing = True
        await asyncio.to_thread(self._thread.join)
        self._settle()

    async def _enqueue(self, record: Record, delivery: "_Delivery", index: int) -> None:
        give_up = self._loop.time() + self._full_seconds
        while True:
            try:
                with self._replacing:
                    self._client.produce(
                        record.topic,
                        record.value,
                        record.key,
                        on_delivery=partial(self._report, delivery, index),
                        headers=dict(record.headers),
                    )
                return
            except BufferError:
                if self._loop.time() > give_up:
                    delivery.settle(index, Unavailable.of_dependency("kafka", "too much is waiting for it"))
                    return
                await asyncio.sleep(_FULL_SECONDS)
            except KafkaException as error:
                delivery.settle(index, _outcome(error.args[0]))
                return

    # --- on the producer's thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._closing:
            try:
                self._client.poll(_POLL_SECONDS)
            except KafkaException as error:
                # Raised for an error after which the client refuses all work; others are complained of.
                self._replace(error)
            if self._reports:
                self._loop.call_soon_threadsafe(self._settle)

    def _report(self, delivery: "_Delivery", index: int, error: KafkaError | None, _message: object) -> None:
        if error is None:
            self._complaints.clear()
        self._reports.append((delivery, index, error))

    def _complain(self, error: KafkaError) -> None:
        if error.code() not in self._complaints:
            # Said once, not at every attempt, until a record arrives again.
            self._complaints.add(error.code())
            logger.warning("kafka: %s", error.str())

    def _connect(self) -> confluent_kafka.Producer:
        return confluent_kafka.Producer({**self._configuration, "error_cb": self._complain}, logger=logger)

    def _replace(self, error: KafkaException) -> None:
        logger.error("the Kafka client broke and is replaced: %s", error)
        with self._replacing:
            broken, self._client = self._client, self._connect()
        with suppress(KafkaException):
            broken.purge()
            broken.flush(_POLL_SECONDS)

    # --- on the event loop ----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        while self._reports:
            delivery, index, error = self._reports.popleft()
            delivery.settle(index, _outcome(error) if error else None)


class _Delivery:
    """Some records on their way, and what became of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self.known: list[Exception | None] = [None] * count
        self.outcomes: asyncio.Future[list[Exception | None]] = loop.create_future()
        self._missing = count
        if not count:
            self.outcomes.set_result([])

    def settle(self, index: int, outcome: Exception | None) -> None:
        """Note what became of one."""
        self.known[index] = outcome
        self._missing -= 1
        if not self._missing and not self.outcomes.done():
            self.outcomes.set_result(self.known)


class _Sent:
    """Counts what was sent, by OpenTelemetry's convention for messaging."""

    def __init__(self) -> None:
        self._counter = telemetry.counter(
            "messaging.client.sent.messages", unit="{message}", description="Records that were sent, and what failed."
        )
        # Whoever watches a counter rise has to have seen its zero: one dead letter is worth an alert.
        for topic in sorted(TOPICS):
            self._counter.add(0, self._attributes(topic, None))

    def count(self, records: Sequence[Record], outcomes: Sequence[Exception | None]) -> None:
        if not telemetry.is_measuring():
            return
        kinds = Counter(
            (record.topic, outcome and type(outcome).__name__)
            for record, outcome in zip(records, outcomes, strict=True)
        )
        for kind, number in kinds.items():
            self._counter.add(number, self._attributes(*kind))

    @staticmethod
    def _attributes(topic: str, error: str | None) -> dict[str, str]:
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.destination.name": topic,
        }
        return {**attributes, "error.type": error} if error else attributes


def _depart(record: Record) -> tuple[Span, Record]:
    """The span of a record that is being sent, and the record in its name."""
    attributes = {
        "messaging.system": "kafka",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": record.topic,
        "messaging.kafka.message.key": record.key,
    }
    span, trace = telemetry.producer_span(f"send {record.topic}", attributes, telemetry.extract(record.headers))
    rest = {name: value for name, value in record.headers.items() if name not in ("traceparent", "tracestate")}
    return span, record._replace(headers={**rest, **trace})


def _outcome(error: KafkaError) -> Exception:
    if error.code() in _REFUSALS:
        return RecordRefused(error.str())
    outcome = Unavailable.of_dependency("kafka")
    outcome.__cause__ = KafkaException(error)
    return outcome


def _require(outcomes: Sequence[Exception | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def _configuration(settings: KafkaSettings, patient: bool) -> dict[str, Any]:
    return {
        "bootstrap.servers": settings.kafka_brokers,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "compression.type": "zstd",
        "message.timeout.ms": 0 if patient else int(settings.kafka_delivery_seconds * 1000),
        # A broker that came back is found soon, and one that fell silent is left soon; the library takes its time.
        "reconnect.backoff.max.ms": 1000,
        "request.timeout.ms": 5000,
        "socket.timeout.ms": 10_000,
        # What matters is said by `_complain`; the library's own lines repeat themselves twice a second.
        "log_level": 2,
    }


@asynccontextmanager
async def producer(settings: KafkaSettings, *, patient: bool = False) -> AsyncGenerator[Producer]:
    """Open a producer. It connects by itself, so brokers that are away delay readiness, not the start.

    A patient one never gives up a record: were one to time out and the next not, a key's records would change places.

    Raises ConfigurationError where no brokers are set.
    """
    if not settings.kafka_brokers:
        raise ConfigurationError(f"{PREFIX}KAFKA_BROKERS: is empty")
    producer = Producer(settings, patient=patient)
    try:
        yield producer
    finally:
        await producer.close()
