"""Operators are told how far fan-out is behind, what it delivers, and how old posts are then."""

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from devmesh.mesh import Mesh
from fanout_service.celebrity_line import CelebrityLine, Limits
from fanout_service.consumer import topics
from fanout_service.consumer.membership import broker_configuration
from fanout_service.lag_client import LagClient
from fanout_service.leader_store import LineStore
from fanout_service.line_in_force import LineInForce
from fanout_service.measures import Measures
from fanout_service.timeline_store import TimelineStore
from fanout_service.timelines import Entry
from feedkit.cursor import first_id_at
from feedkit.kafka import KafkaSettings
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from .conftest import World

pytestmark = pytest.mark.integration

LIMITS = Limits(configured=60, floor=1000, lag_limit_ms=10_000, lag_clear_ms=2_000, clear_for_seconds=60)


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """What is measured by whatever is made during the test."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    yield reader
    provider.shutdown()


def points(meters: InMemoryMetricReader) -> dict[str, list[Any]]:
    """All that was measured, by name."""
    told = meters.get_metrics_data()
    if told is None:
        return {}
    found = [
        metric for resource in told.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    ]
    return {metric.name: list(cast("Any", metric.data).data_points) for metric in found}


async def test_the_leader_tells_how_far_all_are_behind(world: World, mesh: Mesh, meters: InMemoryMetricReader) -> None:
    await world.settle()
    mesh.terminate("fanout")
    author = world.user()
    for _ in range(3):
        await world.post(author)
    brokers = broker_configuration(KafkaSettings(kafka_brokers=world.brokers))
    line = LineInForce(LineStore(world.store), CelebrityLine(LIMITS))
    async with LagClient(brokers, topics.SUBSCRIPTIONS) as lag:
        leads = [False]
        measures = Measures(lag, line, lambda: leads[-1])
        await measures.take()
        assert set(points(meters)) == {"feed.fanout.threshold"}, "who does not lead does not ask"
        leads.append(True)
        await measures.take()
    told = points(meters)
    events = {point.attributes["work"]: point.value for point in told["feed.fanout.lag.events"]}
    assert events == {"posts": 3, "graph": 0, "chunks": 0, "reconcile": 0, "engagement": 0}
    [age] = told["feed.fanout.lag.age"]
    assert 0 < age.value < 60, "in seconds"
    assert told["feed.fanout.threshold"][0].value == 60
    mesh.restart("fanout")
    await world.settle()


async def test_what_is_delivered_is_counted_with_its_age(world: World, meters: InMemoryMetricReader) -> None:
    author, readers, absent = world.user(), [world.user() for _ in range(3)], world.user()
    await world.open(*readers)
    store = TimelineStore(world.store, length=20, life_days=1)
    now_ms = int(time.time() * 1000)
    posts = [Entry(first_id_at(now_ms - age_ms), author) for age_ms in (4_000, 300)]
    await store.push([*readers, absent], posts)
    told = points(meters)
    [deliveries] = told["feed.fanout.deliveries"]
    assert deliveries.value == 6, "where there is no timeline, nothing is delivered"
    [delays] = told["feed.fanout.delivery.delay"]
    assert delays.count == 2
    assert 4.3 <= delays.sum < 20
