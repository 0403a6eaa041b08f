"""Kafka records, and what is in them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar, cast

from confluent_kafka import Message
from feedkit import validation
from feedkit.errors import InvalidArgument
from google.protobuf import message as protobuf

Contract = TypeVar("Contract", bound=protobuf.Message)
Event = TypeVar("Event")
_Headers: TypeAlias = "Iterable[tuple[str, bytes | str | None]]"


class Poisonous(Exception):
    """A record that nobody can make sense of, now or later; the message says why."""


class Record(NamedTuple):
    """A record as it was taken."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: dict[str, str]
    tenure: int
    """Tells this holding of the partition from earlier and later ones of the same process."""

    @classmethod
    def of(cls, message: Message, tenure: int) -> "Record":
        """A record from the client library's message, which carries no error."""
        return cls(
            message.topic() or "",
            message.partition() or 0,
            message.offset() or 0,
            (message.key() or b"").decode(errors="replace"),
            message.value() or b"",
            {name: _text(value) for name, value in cast("_Headers", message.headers() or ())},
            tenure,
        )


def _text(value: bytes | str | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def kind(message_type: type[Contract], event_of: Callable[[Contract], Event]) -> tuple[str, Callable[[bytes], Event]]:
    """One type of messages, by its name, and how the value of its records is read: `event_of` may raise Poisonous."""
    type_name = message_type.DESCRIPTOR.full_name

    def read(value: bytes) -> Event:
        message = message_type()
        try:
            message.ParseFromString(value)
            validation.check(message)
        except protobuf.DecodeError as error:
            raise Poisonous(f"the value is no {type_name}: {error}") from error
        except InvalidArgument as error:
            raise Poisonous(error.message) from error
        return event_of(message)

    return type_name, read


def reader(*kinds: tuple[str, Callable[[bytes], Event]]) -> Callable[[Record], Event]:
    """Reads records of these kinds, which their header `type` tells apart. What it returns raises Poisonous."""
    readers = dict(kinds)
    known = " or ".join(map(repr, readers))

    def read(record: Record) -> Event:
        named = record.headers.get("type", "")
        if named not in readers:
            raise Poisonous(f"the header `type` is {named!r} instead of {known}")
        if not record.value:
            raise Poisonous("the value is empty")
        return readers[named](record.value)

    return read
