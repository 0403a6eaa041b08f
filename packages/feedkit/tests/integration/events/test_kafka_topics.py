"""Topics are made where they are missing, once, and what stands in the way of that is told within a bounded time."""

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from confluent_kafka import admin as _admin
from devmesh.backends.kafka import PARTITIONS, Kafka
from devmesh.ports import free_ports
from feedkit import kafka, kafka_topics
from feedkit.config import ConfigurationError
from feedkit.kafka_topics import TopicSettings
from feedkit.server import StartError

from tests.servers.apache_kafka import ApacheKafka

pytestmark = pytest.mark.integration

# Published with too few types.
admin = cast("Any", _admin)


async def test_where_all_topics_exist_nothing_is_done(broker: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await kafka_topics.create(TopicSettings(kafka_brokers=broker.address))
    assert not [record for record in caplog.records if record.name == kafka_topics.__name__]


async def test_topics_with_fewer_partitions_than_are_set_are_reported_and_left(
    broker: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    await kafka_topics.create(TopicSettings(kafka_brokers=broker.address, kafka_partitions=PARTITIONS + 1))
    told = {vars(record)["topic"]: vars(record) for record in caplog.records if "fewer partitions" in record.message}
    assert told.keys() == kafka.TOPICS
    assert {(fields["partitions"], fields["set"]) for fields in told.values()} == {(PARTITIONS, PARTITIONS + 1)}


async def test_brokers_that_never_answer_are_waited_for_and_then_named_as_the_reason() -> None:
    began = time.monotonic()
    with pytest.raises(StartError, match=r"could not be made within 1 s: .*[Tt]ransport failure"):
        await kafka_topics.create(TopicSettings(kafka_brokers=f"127.0.0.1:{free_ports(1)[0]}"), wait_seconds=1)
    assert time.monotonic() - began < 5


async def test_without_brokers_the_setting_is_named() -> None:
    with pytest.raises(ConfigurationError, match="FEED_KAFKA_BROKERS"):
        await kafka_topics.create(TopicSettings(kafka_brokers=""))


# --- a broker that makes topics, as the embedded one does not -----------------------------------------------------------


@pytest.fixture(scope="module")
def empty_broker() -> Iterator[ApacheKafka]:
    """A broker without topics."""
    with ApacheKafka(topics={}) as broker:
        yield broker


def topics(broker: ApacheKafka) -> dict[str, int]:
    """How many partitions each topic has."""
    known = admin.AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in known.items()}


def configured(broker: ApacheKafka, topic: str) -> dict[str, str]:
    """How a topic is configured."""
    asked = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
    administrator = admin.AdminClient({"bootstrap.servers": broker.address})
    return {name: entry.value for name, entry in administrator.describe_configs([asked])[asked].result().items()}


@pytest.mark.real
async def test_more_copies_than_there_are_brokers_are_told_of_and_nothing_is_made(empty_broker: ApacheKafka) -> None:
    with pytest.raises(StartError, match=r"replication factor of 3 cannot be reached because only 1 broker"):
        await kafka_topics.create(TopicSettings(kafka_brokers=empty_broker.address), wait_seconds=1)
    assert topics(empty_broker) == {}


@pytest.mark.real
async def test_several_who_make_topics_at_once_make_each_once(empty_broker: ApacheKafka) -> None:
    settings = TopicSettings(kafka_brokers=empty_broker.address, kafka_partitions=3, kafka_replication=1)
    await asyncio.gather(*(kafka_topics.create(settings) for _ in range(5)))
    assert topics(empty_broker) == dict.fromkeys(kafka.TOPICS, 3)
    await kafka_topics.create(settings.model_copy(update={"kafka_partitions": 5}))
    assert topics(empty_broker) == dict.fromkeys(kafka.TOPICS, 3), "what exists is left as it is"
    month_ms = 30 * 24 * 3600 * 1000
    assert int(configured(empty_broker, kafka.DEAD_LETTERS)["retention.ms"]) == month_ms
    assert int(configured(empty_broker, kafka.POST_EVENTS)["retention.ms"]) < month_ms
    assert configured(empty_broker, kafka.POST_EVENTS)["min.insync.replicas"] == "1"
