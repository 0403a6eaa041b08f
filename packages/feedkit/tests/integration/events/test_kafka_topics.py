"""Topics are made where they are missing, once, and what stands in the way of that is told within a bounded time."""

import logging
import time

import pytest
from devmesh.backends.kafka import PARTITIONS, Kafka
from devmesh.ports import free_ports
from feedkit import kafka, kafka_topics
from feedkit.config import ConfigurationError
from feedkit.kafka_topics import TopicSettings
from feedkit.server import StartError

pytestmark = pytest.mark.integration


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
