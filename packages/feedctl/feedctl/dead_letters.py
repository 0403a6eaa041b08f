"""Records that `fanout` could not handle: read from the dead-letter topic, and sent once more to where they came from."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from feedkit.kafka import DEAD_LETTERS, TOPICS

SECONDS = 10.0
"""How long the broker may be silent, and how long it may take to acknowledge."""
_OF_THE_LETTER = {"reason", "topic", "partition", "offset", "value-bytes"}
"""Headers that were added when a record was set aside; the others are its own."""


class DeadLetterError(Exception):
    """The letters are not known, or not all were sent; the message says why in one line."""


class Place(NamedTuple):
    """Where a letter is in the dead-letter topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


class DeadLetter(NamedTuple):
    """A record that was set aside."""

    place: Place
    set_aside_at: datetime
    reason: str
    topic: str
    partition: int
    """Where it was in its topic."""
    offset: int
    key: bytes
    value: bytes
    headers: dict[str, str]
    """Its own."""
    full_bytes: int
    """How long its value was, of which no more than the beginning may have been kept."""

    @property
    def type(self) -> str:
        """The full name of its message, as far as it told."""
        return self.headers.get("type", "")

    def why_not(self) -> str | None:
        """Why it cannot be sent once more; None where it can be."""
        if self.topic not in TOPICS - {DEAD_LETTERS}:
            return f"{self.topic!r} is none of the topics"
        if self.full_bytes != len(self.value):
            return f"only {len(self.value)} of its {self.full_bytes} bytes were kept"
        return None


def letters(brokers: str) -> list[DeadLetter]:
    """All letters, oldest first. Raises DeadLetterError."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            # It reads what it is assigned, and neither joins a group nor commits.
            "group.id": "feed.feedctl.dead-letters",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    try:
        consumer.assign(_beginnings(consumer))
        found = [_letter(message) for message in _to_the_end(consumer, len(consumer.assignment()))]
    except KafkaException as error:
        raise DeadLetterError(f"{DEAD_LETTERS} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return sorted(found, key=lambda letter: (letter.set_aside_at, letter.place))


def replay(brokers: str, chosen: Sequence[DeadLetter]) -> None:
    """Send letters to their topics once more; whoever has handled one already handles it again, to the same end.

    Raises DeadLetterError where the broker has not acknowledged all of them.
    """
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "acks": "all", "log_level": 2})
    failures: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    for letter in chosen:
        producer.produce(letter.topic, letter.value, letter.key, headers=dict(letter.headers), on_delivery=delivered)
        producer.poll(0)
    if (left := producer.flush(SECONDS)) or failures:
        why = failures[0] if failures else "no answer"
        raise DeadLetterError(f"{left + len(failures)} of {len(chosen)} were not acknowledged: {why}")


def _beginnings(consumer: Consumer) -> list[TopicPartition]:
    topic = consumer.list_topics(DEAD_LETTERS, SECONDS).topics[DEAD_LETTERS]
    if topic.error is not None:
        raise KafkaException(topic.error)
    return [TopicPartition(DEAD_LETTERS, partition, OFFSET_BEGINNING) for partition in topic.partitions]


def _to_the_end(consumer: Consumer, partitions: int) -> Iterator[Message]:
    """The messages up to what is the end of each partition when it is reached."""
    ended: set[int] = set()
    give_up = time.monotonic() + SECONDS
    while len(ended) < partitions:
        batch = consumer.consume(1000, 0.1)
        if batch:
            give_up = time.monotonic() + SECONDS
        elif time.monotonic() > give_up:
            raise DeadLetterError(f"{DEAD_LETTERS} cannot be read to its end: no answer for {SECONDS:g} s")
        for message in batch:
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(cast("int", message.partition()))
            else:
                raise KafkaException(error)


def _letter(message: Message) -> DeadLetter:
    pairs = cast("Iterable[tuple[str, bytes | None]]", message.headers() or ())
    headers = {name: (value or b"").decode(errors="replace") for name, value in pairs}
    value = message.value() or b""
    place = cast("Any", message)
    return DeadLetter(
        place=Place(place.partition(), place.offset()),
        set_aside_at=datetime.fromtimestamp(place.timestamp()[1] / 1000, UTC),
        reason=headers.get("reason", ""),
        topic=headers.get("topic", ""),
        partition=_number(headers, "partition", -1),
        offset=_number(headers, "offset", -1),
        key=message.key() or b"",
        value=value,
        headers={name: told for name, told in headers.items() if name not in _OF_THE_LETTER},
        full_bytes=_number(headers, "value-bytes", len(value)),
    )


def _number(headers: dict[str, str], name: str, otherwise: int) -> int:
    told = headers.get(name, "")
    return int(told) if told.isascii() and told.isdecimal() else otherwise
