"""The project's topics: made where they are missing, and never changed."""

import asyncio
import logging
import time
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pydantic import Field

from feedkit.config import PREFIX, ConfigurationError
from feedkit.kafka import DEAD_LETTERS, TOPICS, KafkaSettings
from feedkit.server import StartError

logger = logging.getLogger(__name__)

WAIT_SECONDS = 120.0
"""How long brokers that are still starting, or are too few yet, are waited for."""
ANSWER_SECONDS = 10.0
PAUSE_SECONDS = 0.5
DEAD_LETTER_DAYS = 30
"""How long there is to look at what was set aside; other topics keep what the cluster lets them."""

_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
}


class TopicSettings(KafkaSettings):
    """How topics are made that are missing."""

    kafka_partitions: int = Field(
        default=16,
        ge=1,
        le=10_000,
        description="How many partitions a topic is made with. Topics that exist already are left as they are.",
    )
    kafka_replication: int = Field(
        default=3,
        ge=1,
        le=15,
        description="On how many brokers each record is kept, in topics that are made; it counts as written once all but "
        "one of them have it. 1 where there is a single broker.",
    )


async def create(settings: TopicSettings, wait_seconds: float = WAIT_SECONDS) -> None:
    """Make the topics that are missing; return when the cluster knows all of them. Several may call this at once.

    Raises StartError where that is not allowed, or not done within `wait_seconds`; ConfigurationError without brokers.
    """
    if not settings.kafka_brokers:
        raise ConfigurationError(f"{PREFIX}KAFKA_BROKERS: is empty")
    client = AdminClient(
        {
            "bootstrap.servers": settings.kafka_brokers,
            "reconnect.backoff.max.ms": 1000,
            # What matters is said here; the library's own lines repeat themselves at every attempt.
            "log_level": 0,
        }
    )
    give_up = time.monotonic() + wait_seconds
    problem = ""
    while (left := give_up - time.monotonic()) > 0:
        try:
            known = await asyncio.to_thread(_partitions, client, min(left, ANSWER_SECONDS))
            if not (missing := TOPICS - known.keys()):
                _report_fewer(known, settings.kafka_partitions)
                return
            await asyncio.to_thread(_create, client, sorted(missing), settings)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() in _FORBIDDEN:
                raise StartError(f"topics of Kafka are missing and cannot be made: {reason.str()}") from error
            if reason.str() != problem:
                logger.warning("topics of Kafka are not there yet: %s", reason.str())
            problem = reason.str()
        await asyncio.sleep(PAUSE_SECONDS)
    raise StartError(f"topics of Kafka could not be made within {wait_seconds:g} s: {problem}")


def _partitions(client: AdminClient, seconds: float) -> dict[str, int]:
    """How many partitions each topic has that exists."""
    topics = client.list_topics(timeout=seconds).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}


def _create(client: AdminClient, names: Collection[str], settings: TopicSettings) -> None:
    topics = [
        NewTopic(name, settings.kafka_partitions, settings.kafka_replication, config=_configuration(name, settings))
        for name in names
    ]
    # Published with a result of unknown type.
    created: dict[str, Future[None]] = cast("Any", client).create_topics(topics, request_timeout=ANSWER_SECONDS)
    for name, outcome in created.items():
        try:
            outcome.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        else:
            logger.info("made a topic", extra={"topic": name, "partitions": settings.kafka_partitions})


def _configuration(name: str, settings: TopicSettings) -> dict[str, str]:
    # One broker less than there are copies may acknowledge, so that each can be restarted without holding up anybody.
    configuration = {"min.insync.replicas": str(max(1, settings.kafka_replication - 1))}
    if name == DEAD_LETTERS:
        configuration["retention.ms"] = str(DEAD_LETTER_DAYS * 24 * 3600 * 1000)
    return configuration


def _report_fewer(known: dict[str, int], wanted: int) -> None:
    for name in sorted(TOPICS):
        if known[name] < wanted:
            logger.warning(
                "a topic has fewer partitions than are set, and is left as it is",
                extra={"topic": name, "partitions": known[name], "set": wanted},
            )
