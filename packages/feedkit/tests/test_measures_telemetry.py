"""Calls are told by method and outcome where metrics are wanted, and not timed where they are not."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import interceptors, telemetry
from feedkit.errors import Overloaded, user_not_found
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint

UNARY = "feed.hydrate.v1.HydrateService/HydratePosts"
STREAM = "feed.graph.v1.GraphService/StreamFollowers"
Serve = Callable[..., Awaitable[str]]
Points = dict[str, list[HistogramDataPoint | NumberDataPoint]]


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """What is measured by whatever is made during the test."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    yield reader
    provider.shutdown()


def points(meters: InMemoryMetricReader) -> Points:
    """All that was measured, by name."""
    told = meters.get_metrics_data()
    if told is None:
        return {}
    found = [
        metric for resource in told.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    ]
    return {metric.name: list(cast("Any", metric.data).data_points) for metric in found}


def calls(meters: InMemoryMetricReader) -> dict[tuple[object, object], int]:
    """How many calls there were, by method and code."""
    told: Any = points(meters).get("rpc.server.call.duration", [])
    assert {point.attributes["rpc.system.name"] for point in told} <= {"grpc"}
    return {
        (point.attributes["rpc.method"], point.attributes["rpc.response.status_code"]): point.count for point in told
    }


async def answer(_request: object) -> hydrate_pb2.HydratePostsResponse:
    return hydrate_pb2.HydratePostsResponse()


async def hydrate(target: str, timeout: float | None = None) -> None:
    async with grpc.aio.insecure_channel(target) as connection:
        stub: Any = hydrate_pb2_grpc.HydrateServiceStub(connection)
        await stub.HydratePosts(hydrate_pb2.HydratePostsRequest(), timeout=timeout)


async def test_answered_calls_are_told_with_their_durations(serve_hydrate: Serve, meters: InMemoryMetricReader) -> None:
    async def slowly(request: object) -> hydrate_pb2.HydratePostsResponse:
        await asyncio.sleep(0.06)
        return await answer(request)

    target = await serve_hydrate(slowly)
    for _ in range(2):
        await hydrate(target)
    assert calls(meters) == {(UNARY, "OK"): 2}
    [point] = points(meters)["rpc.server.call.duration"]
    assert isinstance(point, HistogramDataPoint)
    assert 0.12 <= point.sum < 5, "in seconds"
    assert sum(point.bucket_counts[: telemetry.SECONDS_BOUNDARIES.index(0.05) + 1]) == 0
    assert tuple(point.explicit_bounds) == telemetry.SECONDS_BOUNDARIES


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (user_not_found(17, "viewer_id"), "NOT_FOUND"),
        (Overloaded("OVERLOADED", "too much"), "RESOURCE_EXHAUSTED"),
        (ZeroDivisionError(), "INTERNAL"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_refused_calls_are_told_with_their_codes(
    serve_hydrate: Serve, meters: InMemoryMetricReader, error: Exception, code: str
) -> None:
    async def refuse(_request: object) -> hydrate_pb2.HydratePostsResponse:
        raise error

    target = await serve_hydrate(refuse)
    with pytest.raises(grpc.aio.AioRpcError):
        await hydrate(target)
    assert calls(meters) == {(UNARY, code): 1}


async def test_calls_that_are_shed_are_told(serve_hydrate: Serve, meters: InMemoryMetricReader) -> None:
    came, go = asyncio.Event(), asyncio.Event()

    async def wait(request: object) -> hydrate_pb2.HydratePostsResponse:
        came.set()
        await go.wait()
        return await answer(request)

    target = await serve_hydrate(wait, grpc_max_concurrent_calls=1)
    first = asyncio.create_task(hydrate(target))
    await came.wait()
    with pytest.raises(grpc.aio.AioRpcError):
        await hydrate(target)
    go.set()
    await first
    assert calls(meters) == {(UNARY, "RESOURCE_EXHAUSTED"): 1, (UNARY, "OK"): 1}


async def test_calls_whose_time_is_over_and_whose_callers_went_are_told(
    serve_hydrate: Serve, meters: InMemoryMetricReader, eventually: Callable[..., Awaitable[None]]
) -> None:
    came = asyncio.Event()

    async def hang(request: object) -> hydrate_pb2.HydratePostsResponse:
        came.set()
        await asyncio.sleep(60)
        return await answer(request)

    target = await serve_hydrate(hang)
    with pytest.raises(grpc.aio.AioRpcError):
        await hydrate(target, timeout=0.2)
    await eventually(lambda: calls(meters) == {(UNARY, "DEADLINE_EXCEEDED"): 1})
    came.clear()
    going = asyncio.create_task(hydrate(target))
    await came.wait()
    going.cancel()
    await eventually(lambda: calls(meters).get((UNARY, "CANCELLED")) == 1)


async def test_streams_are_told_when_they_end(serve_followers: Serve, meters: InMemoryMetricReader) -> None:
    async def pages(request: graph_pb2.StreamFollowersRequest) -> AsyncIterator[graph_pb2.StreamFollowersResponse]:
        for _ in range(3):
            assert calls(meters) == {}
            yield graph_pb2.StreamFollowersResponse()
        if request.user_id == 13:
            raise user_not_found(13, "user_id")

    target = await serve_followers(pages)
    async with grpc.aio.insecure_channel(target) as connection:
        stub: Any = graph_pb2_grpc.GraphServiceStub(connection)
        assert len([page async for page in stub.StreamFollowers(graph_pb2.StreamFollowersRequest(user_id=7))]) == 3
    assert calls(meters) == {(STREAM, "OK"): 1}


async def test_without_metrics_no_call_is_timed(serve_hydrate: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        pytest.fail("it is measured")

    monkeypatch.setattr(interceptors, "_measured", refuse)
    await hydrate(await serve_hydrate(answer))


# --- readings ---------------------------------------------------------------------------------------------------------


def test_a_reading_is_told_until_it_is_old(meters: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reading = telemetry.Reading("feed.test.backlog", unit="{event}", description="What waits.")
    assert points(meters) == {}
    reading.set(3)
    reading.set(5)
    for _ in range(2):
        [point] = points(meters)["feed.test.backlog"]
        assert isinstance(point, NumberDataPoint)
        assert point.value == 5, "the latest, at every look"
    now += telemetry.READING_SECONDS + 1
    assert points(meters) == {}


def test_readings_differ_by_their_attributes(meters: InMemoryMetricReader) -> None:
    reading = telemetry.Reading("feed.test.backlog", unit="{event}", description="What waits, by topic.")
    reading.set(3, {"topic": "posts"})
    reading.set(4, {"topic": "graph"})
    told: Any = points(meters)["feed.test.backlog"]
    assert {(point.attributes["topic"], point.value) for point in told} == {("posts", 3), ("graph", 4)}
