"""What is sent is counted by topic, and so is what fails, where metrics are wanted."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from feedkit import kafka
from feedkit.kafka import Producer, Record, RecordRefused
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

pytestmark = pytest.mark.integration

TOO_LARGE = b"x" * 2_000_000


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """What is measured by whatever is made during the test."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    yield reader
    provider.shutdown()


def sent(meters: InMemoryMetricReader) -> dict[tuple[object, object], int]:
    """How many records, by topic and error."""
    told = meters.get_metrics_data()
    assert told
    [metric] = [metric for one in told.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]
    assert metric.name == "messaging.client.sent.messages"
    points: Any = metric.data.data_points
    return {
        (point.attributes["messaging.destination.name"], point.attributes.get("error.type")): point.value
        for point in points
    }


async def test_records_are_counted_by_topic_and_what_failed_apart(
    open_producer: Callable[..., Awaitable[Producer]], meters: InMemoryMetricReader
) -> None:
    producer = await open_producer()
    assert sent(meters) == {(topic, None): 0 for topic in kafka.TOPICS}, "a rise from nothing would not be seen"
    good = [Record(topic, "1", b"x", {}) for topic in (kafka.POST_EVENTS, kafka.POST_EVENTS, kafka.GRAPH_EVENTS)]
    outcomes = await producer.send_records([*good, Record(kafka.POST_EVENTS, "1", TOO_LARGE, {})])
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 3 + [RecordRefused]
    await producer.send_record(kafka.DEAD_LETTERS, "1", b"x", {})
    counted = {kind: number for kind, number in sent(meters).items() if number}
    assert counted == {
        (kafka.POST_EVENTS, None): 2,
        (kafka.GRAPH_EVENTS, None): 1,
        (kafka.POST_EVENTS, "RecordRefused"): 1,
        (kafka.DEAD_LETTERS, None): 1,
    }
