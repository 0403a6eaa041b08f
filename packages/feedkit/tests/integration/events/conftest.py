"""A broker of the test's own, producers to it, and all that it holds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from devmesh.backends.kafka import Kafka
from feedkit import kafka
from feedkit.kafka import KafkaSettings, Producer

POLL_SECONDS = 0.02


class Received(NamedTuple):
    """A record as a consumer gets it."""

    key: str
    value: bytes
    headers: dict[str, str]


class Broker(Kafka):
    """A broker that may be killed, and started again without its records."""

    async def restart(self) -> None:
        """Start it again after it was killed."""
        self.launch()
        await asyncio.to_thread(self.wait_ready)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker that is empty."""
    with Broker() as broker:
        yield broker


@pytest.fixture
async def open_producer(broker: Kafka) -> AsyncIterator[Callable[..., Awaitable[Producer]]]:
    """Open a producer with any settings."""
    async with AsyncExitStack() as producers:

        async def opened(*, patient: bool = False, **settings: Any) -> Producer:
            chosen = KafkaSettings.model_validate({"kafka_brokers": broker.address, **settings})
            return await producers.enter_async_context(kafka.producer(chosen, patient=patient))

        yield opened


@pytest.fixture
def received(broker: Kafka) -> Iterator[Callable[..., Awaitable[list[Received]]]]:
    """What a topic holds, once it is at least `count` records; those of each partition in order. Fails after 20 s."""
    consumers: list[Consumer] = []

    def consume(topic: str, count: int) -> list[Received]:
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test", "fetch.wait.max.ms": 10})
        consumers.append(consumer)
        partitions = consumer.list_topics(topic, 5).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found: list[Received] = []
        for _ in range(int(20 / POLL_SECONDS)):
            batch = consumer.consume(1000, POLL_SECONDS)
            found += [_received(message) for message in batch]
            if len(found) >= count and not batch:
                return found
        raise AssertionError(f"{len(found)} of {count} records arrived")

    async def all_of(topic: str, count: int) -> list[Received]:
        return await asyncio.to_thread(consume, topic, count)

    yield all_of
    for consumer in consumers:
        consumer.close()


def _received(message: Any) -> Received:
    assert message.error() is None, message.error()
    headers: list[tuple[str, bytes]] = message.headers() or []
    return Received(message.key().decode(), message.value(), {name: value.decode() for name, value in headers})
