"""Whole processes export what the standard settings say, and no collector's absence costs a request or an exit."""

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit.telemetry import FLUSH_SECONDS
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

pytestmark = pytest.mark.integration

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
StartToy = Callable[..., Awaitable[Any]]
TraceServiceServicer: Any = trace_service_pb2_grpc.TraceServiceServicer
MetricsServiceServicer: Any = metrics_service_pb2_grpc.MetricsServiceServicer


class Collector(TraceServiceServicer):
    """A stand-in for an OTLP collector: keeps what it gets."""

    def __init__(self) -> None:
        self.address = ""
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.metrics = _Metrics()

    async def Export(self, request: Any, context: object) -> Any:
        for resource in request.resource_spans:
            attributes = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            self.services.add(attributes["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(MetricsServiceServicer):
    """The part of it that takes metrics."""

    def __init__(self) -> None:
        self.exports = 0
        self.counts: dict[tuple[str, str, int], int] = {}
        """The latest value, by service, counter and viewer."""

    async def Export(self, request: Any, context: object) -> Any:
        self.exports += 1
        for resource in request.resource_metrics:
            attributes = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            for metric in [metric for scope in resource.scope_metrics for metric in scope.metrics]:
                for point in metric.sum.data_points:
                    [viewer] = [attribute.value.int_value for attribute in point.attributes]
                    self.counts[attributes["service.name"], metric.name, viewer] = point.as_int
        return metrics_service_pb2.ExportMetricsServiceResponse()


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    server, collector = grpc.aio.server(), Collector()
    cast("Any", trace_service_pb2_grpc).add_TraceServiceServicer_to_server(collector, server)
    cast("Any", metrics_service_pb2_grpc).add_MetricsServiceServicer_to_server(collector.metrics, server)
    collector.address = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield collector
    await server.stop(0)


async def call(toy: Any, flags: str | None = "01", *, post_id: int = 1) -> list[str]:
    """Call with a parent; the trace ids that the processes on the way saw, the farthest first."""
    headers = (("traceparent", f"00-{TRACE}-{PARENT}-{flags}"),) if flags else ()
    async with grpc.aio.insecure_channel(toy.target) as connection:
        stub: Any = hydrate_pb2_grpc.HydrateServiceStub(connection)
        answer = await stub.HydratePosts(hydrate_pb2.HydratePostsRequest(post_ids=[post_id]), metadata=headers)
    return [hydration.unavailable.dependency for hydration in answer.hydrations]


async def stop(toy: Any) -> float:
    """Stop a process in order; how many seconds it took."""
    began = time.monotonic()
    toy.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(toy.process.wait, 20) == 0
    return time.monotonic() - began


def measuring(address: str, **environment: str) -> dict[str, str]:
    return {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": address, **environment}


def exporting(address: str, **environment: str) -> dict[str, str]:
    return {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": address, **environment}


def everything(address: str) -> dict[str, str]:
    return exporting(address) | measuring(address)


async def test_one_trace_goes_through_two_processes_and_is_flushed_at_their_end(
    start_toy: StartToy, collector: Collector
) -> None:
    last = await start_toy(**exporting(collector.address, OTEL_SERVICE_NAME="last"))
    first = await start_toy(FEED_TOY_NEXT_TARGET=last.target, **exporting(collector.address))
    assert await call(first) == [TRACE, TRACE]
    for toy in (first, last):
        await stop(toy)
    assert collector.services == {"toy", "last"}
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    parents = {span.parent_span_id.hex(): span for span in collector.spans}
    path, at = list["Span.SpanKind.ValueType"](), PARENT
    while at in parents:
        path.append(parents[at].kind)
        at = parents[at].span_id.hex()
    assert path == [Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_SERVER]


async def test_a_process_without_an_exporter_still_has_trace_ids(start_toy: StartToy) -> None:
    toy = await start_toy()
    [seen] = await call(toy, None)
    assert int(seen, 16)


async def test_without_the_sdk_a_failure_is_still_answered(start_toy: StartToy) -> None:
    toy = await start_toy(OTEL_SDK_DISABLED="true")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(toy, post_id=13)
    assert refused.value.code() is grpc.StatusCode.INTERNAL
    assert await stop(toy) < 3


async def test_spans_may_go_to_the_console(start_toy: StartToy, capfd: pytest.CaptureFixture[str]) -> None:
    toy = await start_toy(OTEL_TRACES_EXPORTER="console")
    await call(toy)
    await stop(toy)
    assert TRACE in capfd.readouterr().out


async def test_what_is_counted_is_flushed_at_the_end(start_toy: StartToy, collector: Collector) -> None:
    toy = await start_toy(**measuring(collector.address))
    for _ in range(3):
        await call(toy)
    assert await stop(toy) < 2
    assert collector.metrics.counts == {("toy", "feed.toy.calls", 0): 3}
    assert collector.metrics.exports == 1, "every minute, or as the SDK is told"
    assert not collector.spans, "metrics may be had without traces"


async def test_what_is_counted_is_told_as_often_as_the_sdk_is_told(
    start_toy: StartToy, collector: Collector, eventually: Callable[[Callable[[], bool]], Awaitable[None]]
) -> None:
    toy = await start_toy(**measuring(collector.address, OTEL_METRIC_EXPORT_INTERVAL="50"))
    for calls in (1, 2):
        await call(toy)
        await eventually(lambda expected=calls: collector.metrics.counts == {("toy", "feed.toy.calls", 0): expected})


async def test_metrics_may_go_to_the_console(start_toy: StartToy, capfd: pytest.CaptureFixture[str]) -> None:
    toy = await start_toy(OTEL_METRICS_EXPORTER="console")
    await call(toy)
    await stop(toy)
    assert "feed.toy.calls" in capfd.readouterr().out


@pytest.fixture(params=["black hole", "refused"])
def absent_collector(request: pytest.FixtureRequest) -> str:
    """An address where no collector answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if request.param == "refused":
        listener.close()
    else:
        request.addfinalizer(listener.close)
    return address


@pytest.mark.parametrize("wanted", [exporting, everything], ids=["traces", "traces and metrics"])
async def test_an_absent_collector_delays_neither_requests_nor_the_end(
    start_toy: StartToy, absent_collector: str, wanted: Callable[[str], dict[str, str]]
) -> None:
    often = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "50"}
    toy = await start_toy(**wanted(absent_collector), **often)
    for _ in range(20):
        began = time.monotonic()
        await call(toy)
        assert time.monotonic() - began < 1
        await asyncio.sleep(0.02)
    assert await stop(toy) < FLUSH_SECONDS + 2
