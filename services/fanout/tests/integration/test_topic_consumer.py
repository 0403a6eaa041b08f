"""What is done of a batch is done once, however often the rest of it is tried again."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition
from devmesh.backends.kafka import PARTITIONS, Kafka
from fanout_service.config import ConsumerSettings
from fanout_service.consumer.dead_letters import DeadLetters
from fanout_service.consumer.membership import Membership
from fanout_service.consumer.records import Poisonous, Record
from fanout_service.consumer.topic_consumer import Topic, TopicConsumer, consuming
from feedkit import kafka
from feedkit.errors import Unavailable
from feedkit.kafka import DEAD_LETTERS, POST_EVENTS

from .conftest import SECONDS, eventually

pytestmark = pytest.mark.integration


@pytest.fixture
def broker() -> Iterator[Kafka]:
    """A broker of the test's own."""
    with Kafka() as broker:
        yield broker


class Work:
    """Handles words: what is odd fails for ever, and what is early fails for a while."""

    def __init__(self) -> None:
        self.early = True
        self.taken: list[list[str]] = []
        self.done: list[str] = []

    def read(self, record: Record) -> str:
        """See `Topic.read`."""
        word = record.value.decode()
        if word == "poison":
            raise Poisonous(word)
        return word

    async def handle(self, words: Sequence[str]) -> None:
        """See `Topic.handle`."""
        self.taken.append(list(words))
        if "odd" in words:
            raise ValueError("odd")
        if self.early and "early" in words:
            raise Unavailable.of_dependency("a neighbour")
        self.done += words

    def attempts(self, *words: str) -> int:
        """How often exactly these were handled together."""
        return self.taken.count(list(words))


@asynccontextmanager
async def consumer(broker: Kafka, work: Work, *words: str) -> AsyncGenerator[None]:
    """Consume these, which are all there when it begins."""
    settings = ConsumerSettings(kafka_brokers=broker.address)

    def join() -> Membership:
        return Membership(settings, POST_EVENTS, "test")

    async with kafka.producer(settings) as producer:
        for word in words:
            await producer.send_record(POST_EVENTS, "1", word.encode(), {})
        topic = Topic(POST_EVENTS, work.read, work.handle, 100)
        async with consuming([TopicConsumer(topic, join, DeadLetters(producer))], asyncio.Event(), SECONDS):
            yield


async def letters(broker: Kafka) -> list[bytes | None]:
    """All that was set aside."""

    def read() -> list[bytes | None]:
        reader = Consumer({"bootstrap.servers": broker.address, "group.id": "letters"})
        try:
            reader.assign([TopicPartition(DEAD_LETTERS, partition, 0) for partition in range(PARTITIONS)])
            return [message.value() for message in reader.consume(1000, 1.0) if message.error() is None]
        finally:
            reader.close()

    return await asyncio.to_thread(read)


async def until(check: Callable[[], bool], what: str) -> None:
    """Poll until it is so."""

    async def checked() -> bool:
        return check()

    await eventually(checked, what)


async def test_poison_is_set_aside_once_though_its_batch_is_tried_again(broker: Kafka) -> None:
    work = Work()
    async with consumer(broker, work, "poison", "early"):
        await until(lambda: work.attempts("early") >= 3, "tried again")
        work.early = False
        await until(lambda: work.done == ["early"], "done")
    assert await letters(broker) == [b"poison"]


async def test_what_fails_alone_is_set_aside_once_though_its_neighbour_is_tried_again(broker: Kafka) -> None:
    work = Work()
    async with consumer(broker, work, "well", "odd", "early"):
        await until(lambda: work.attempts("early") >= 3, "tried again")
        work.early = False
        await until(lambda: "early" in work.done, "done")
    assert work.done == ["well", "early"]
    assert await letters(broker) == [b"odd"]
