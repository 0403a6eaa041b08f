"""One request is one trace through every process, and costs nothing where it is not recorded."""

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import grpc.aio
import pytest
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import channel, telemetry
from feedkit.config import ConfigurationError
from feedkit.errors import FeedError, Internal, NotFound, Unavailable, user_not_found
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
    Sum,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

SERVICE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
METHOD = "feed.hydrate.v1.HydrateService/HydratePosts"
REQUEST = hydrate_pb2.HydratePostsRequest()
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
Response = hydrate_pb2.HydratePostsResponse
Serve = Callable[..., Awaitable[str]]


async def answer(request: object) -> Response:
    return Response()


async def call(target: str, parent: dict[str, str]) -> None:
    """Call as a process that serves a request with these headers."""
    async with channel.connect(target, SERVICE, "hydrate") as connection:
        with telemetry.server_span("root", telemetry.extract(parent), {}):
            await hydrate_pb2_grpc.HydrateServiceStub(connection).HydratePosts(REQUEST)


def sampled(flags: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{TRACE}-{PARENT}-{flags}", "tracestate": "vendor=value"}


def chain(spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    """The spans from the outermost, each the only child of the one before."""
    by_parent = {f"{span.parent.span_id:016x}" if span.parent else "": span for span in spans}
    assert len(by_parent) == len(spans)
    found: list[ReadableSpan] = []
    at = PARENT if PARENT in by_parent else ""
    while at in by_parent:
        found.append(by_parent[at])
        assert found[-1].context
        at = f"{found[-1].context.span_id:016x}"
    assert len(found) == len(spans)
    return found


async def test_every_hop_is_a_child_of_the_one_before(serve_hydrate: Serve, spans: InMemorySpanExporter) -> None:
    async with channel.connect(await serve_hydrate(answer), SERVICE, "last") as last:

        async def relay(request: hydrate_pb2.HydratePostsRequest) -> Response:
            return await hydrate_pb2_grpc.HydrateServiceStub(last).HydratePosts(request)

        await call(await serve_hydrate(relay), sampled())
    path = chain(spans.get_finished_spans())
    assert [(span.kind, span.name) for span in path] == [
        (SpanKind.SERVER, "root"),
        *[(SpanKind.CLIENT, METHOD), (SpanKind.SERVER, METHOD)] * 2,
    ]
    assert {f"{span.context.trace_id:032x}" for span in path if span.context} == {TRACE}


async def test_a_child_lies_within_its_parent(serve_hydrate: Serve, spans: InMemorySpanExporter) -> None:
    await call(await serve_hydrate(answer), sampled())
    path = chain(spans.get_finished_spans())
    starts, ends = [span.start_time or 0 for span in path], [span.end_time or 0 for span in path]
    assert starts == sorted(starts)
    assert ends == sorted(ends, reverse=True)


async def test_spans_say_what_was_called(serve_hydrate: Serve, spans: InMemorySpanExporter) -> None:
    await call(await serve_hydrate(answer), sampled())
    _, client, server = chain(spans.get_finished_spans())
    expected = {"rpc.system": "grpc", "rpc.service": SERVICE.full_name, "rpc.method": "HydratePosts"}
    assert dict(server.attributes or {}) == expected
    assert dict(client.attributes or {}) == {**expected, "peer.service": "hydrate"}


MALFORMED = [
    "",
    "nonsense",
    f"00-{TRACE}-{PARENT}",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"ff-{TRACE}-{PARENT}-01",
    f"00-{TRACE.upper()}-{PARENT}-01",
    f"00-{TRACE[:-1]}g-{PARENT}-01",
    f"00-{TRACE}-{PARENT}-01-more",
    "00-" + "١" * 32 + f"-{PARENT}-01",
    "00-" * 10_000,
]


@pytest.mark.parametrize("header", MALFORMED, ids=lambda header: ascii(header)[:40])
def test_a_malformed_parent_starts_a_new_trace(header: str, spans: InMemorySpanExporter) -> None:
    with telemetry.server_span("request", telemetry.extract({"traceparent": header}), {}):
        assert int(telemetry.trace_id(), 16)
    [span] = spans.get_finished_spans()
    assert span.parent is None
    assert telemetry.trace_id() == "0" * 32


@pytest.mark.parametrize("state", ["", "=", "a=b,a=b", "nonsense", "\x00", "a" * 10_000])
def test_a_malformed_state_does_not_break_the_trace(state: str, spans: InMemorySpanExporter) -> None:
    headers = {**sampled(), "tracestate": state}
    with telemetry.server_span("request", telemetry.extract(headers), {}):
        assert telemetry.trace_id() == TRACE
    assert len(spans.get_finished_spans()) == 1


async def test_a_malformed_header_is_no_error_of_the_call(serve_hydrate: Serve) -> None:
    async with grpc.aio.insecure_channel(await serve_hydrate(answer)) as connection:
        stub: Any = hydrate_pb2_grpc.HydrateServiceStub(connection)
        headers = (("traceparent", "nonsense"), ("traceparent", "00"), ("tracestate", "===="))
        assert await stub.HydratePosts(REQUEST, metadata=headers) == Response()


async def test_what_the_caller_did_not_sample_is_not_recorded_but_passed_on(
    serve_hydrate: Serve, spans: InMemorySpanExporter
) -> None:
    seen: list[tuple[str, bool]] = []

    async def look(request: object) -> Response:
        headers: dict[str, str] = {}
        telemetry.inject(headers)
        seen.append((headers["traceparent"].split("-")[1], telemetry.is_recording()))
        return Response()

    await call(await serve_hydrate(look), sampled("00"))
    assert seen == [(TRACE, False)]
    assert spans.get_finished_spans() == ()


# --- what the environment says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "flags", "recorded"),
    [
        ({}, "01", 1),
        ({}, "00", 0),
        ({}, None, 1),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, None, 1),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, "00", 0),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, "00", 1),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, "01", 0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, "01", 0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1"}, None, 1),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, None, 0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, "01", 1),
        ({"OTEL_SDK_DISABLED": "true"}, "01", 0),
        ({"OTEL_SDK_DISABLED": "true"}, None, 0),
        ({"OTEL_TRACES_EXPORTER": "none"}, "01", 0),
        ({"OTEL_TRACES_EXPORTER": "carrier-pigeon"}, "01", 0),
        ({"OTEL_TRACES_EXPORTER": " OTLP "}, "01", 1),
    ],
    ids=str,
)
def test_the_standard_settings_decide_what_is_recorded(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], flags: str | None, recorded: int
) -> None:
    exporter = InMemorySpanExporter()
    exporters = {"": None, "none": None, "otlp": lambda: exporter}
    monkeypatch.setattr(telemetry, "_SPAN_EXPORTERS", exporters)

    def install(provider: TracerProvider) -> None:  # the API lets a process set one only
        monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("feedkit"))

    monkeypatch.setattr(trace, "set_tracer_provider", install)
    for name, value in {"OTEL_TRACES_EXPORTER": "otlp", **settings}.items():
        monkeypatch.setenv(name, value)
    with telemetry.configured("test"):
        parent = telemetry.extract(sampled(flags) if flags else {})
        with telemetry.server_span("request", parent, {}):
            headers: dict[str, str] = {}
            telemetry.inject(headers)
            assert flags is None or headers["traceparent"].split("-")[1] == TRACE
    assert len(exporter.get_finished_spans()) == recorded


@pytest.mark.parametrize(
    ("settings", "counted"),
    [
        ({"OTEL_METRICS_EXPORTER": "otlp"}, 5),
        ({"OTEL_METRICS_EXPORTER": " OTLP "}, 5),
        ({"OTEL_METRICS_EXPORTER": "other, otlp"}, 5),
        ({"OTEL_METRICS_EXPORTER": "otlp,otlp"}, 5),
        ({"OTEL_METRICS_EXPORTER": "none,otlp"}, 5),
        ({"OTEL_METRICS_EXPORTER": "other"}, 0),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_TRACES_EXPORTER": "otlp"}, 5),
        ({}, 0),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, 0),
        ({"OTEL_METRICS_EXPORTER": "none"}, 0),
        ({"OTEL_METRICS_EXPORTER": "carrier-pigeon"}, 0),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, 0),
    ],
    ids=str,
)
def test_the_standard_settings_decide_whether_is_counted(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], counted: int
) -> None:
    exporter, threads = KeptMetrics(), threading.active_count()
    monkeypatch.setattr(telemetry, "_SPAN_EXPORTERS", {"": None, "none": None, "otlp": InMemorySpanExporter})
    readers = {
        "": None,
        "none": None,
        "otlp": lambda: PeriodicExportingMetricReader(exporter),
        "other": InMemoryMetricReader,
    }
    monkeypatch.setattr(telemetry, "_METRIC_READERS", readers)

    def ignore(provider: trace.TracerProvider) -> None:
        """The API lets a process set one only."""

    def install(provider: MeterProvider) -> None:
        monkeypatch.setattr(metrics, "get_meter", provider.get_meter)

    monkeypatch.setattr(trace, "set_tracer_provider", ignore)
    monkeypatch.setattr(metrics, "set_meter_provider", install)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with telemetry.configured("test"):
        counter = telemetry.counter("feed.test.shown", unit="{post}", description="Posts that were shown.")
        for _ in range(5):
            counter.add(1, {"surface": "feed"})
    assert exporter.points == ({("test", "feed.test.shown", "{post}", "feed"): counted} if counted else {})
    assert threading.active_count() == threads, "nothing goes on working"


class KeptMetrics(MetricExporter):
    """Keeps the latest value of each counter."""

    def __init__(self) -> None:
        super().__init__()
        self.points: dict[tuple[object, ...], object] = {}

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any) -> MetricExportResult:
        """See the SDK."""
        for resource in metrics_data.resource_metrics:
            service = resource.resource.attributes["service.name"]
            for metric in [metric for scope in resource.scope_metrics for metric in scope.metrics]:
                for point in cast("Sum", metric.data).data_points:
                    surface = (point.attributes or {})["surface"]
                    self.points[service, metric.name, metric.unit, surface] = point.value
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """See the SDK."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **options: Any) -> None:
        """See the SDK."""


@pytest.mark.parametrize(
    "settings",
    [
        {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
        {"OTEL_METRICS_EXPORTER": "console", "OTEL_METRIC_EXPORT_INTERVAL": "0"},
        {"OTEL_METRICS_EXPORTER": "console", "OTEL_METRIC_EXPORT_INTERVAL": "-5"},
        {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "scrape"},
        {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "-1"},
        {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "65536"},
        {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "٩٤٦٤"},
        {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST": "203.0.113.1"},
        {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST": "not a host"},
    ],
    ids=str,
)
def test_settings_that_no_exporter_can_use_are_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="OTEL_"), telemetry.configured("test"):
        pytest.fail("it started")


# --- failures ---------------------------------------------------------------------------------------------------------


def failing(error: Exception) -> Callable[[object], Awaitable[Response]]:
    async def fail(request: object) -> Response:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (user_not_found(17, "viewer_id"), StatusCode.UNSET, None),
        (Unavailable.of_dependency("postgres"), StatusCode.ERROR, "Unavailable: postgres: cannot be reached"),
        (ZeroDivisionError("by zero"), StatusCode.ERROR, "ZeroDivisionError: by zero"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_a_server_span_is_an_error_where_the_fault_is_ours(
    serve_hydrate: Serve, spans: InMemorySpanExporter, error: Exception, status: StatusCode, said: str | None
) -> None:
    async with grpc.aio.insecure_channel(await serve_hydrate(failing(error))) as connection:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await cast("Any", connection).unary_unary(f"/{METHOD}")(b"")
    [server] = spans.get_finished_spans()
    assert (server.status.status_code, server.status.description) == (status, said)
    assert dict(server.attributes or {})["rpc.grpc.status_code"] == refused.value.code().value[0]


@pytest.mark.parametrize(("error", "expected"), [(user_not_found(17, "viewer_id"), NotFound), (ValueError(), Internal)])
async def test_a_client_span_is_an_error_where_the_call_failed(
    serve_hydrate: Serve, spans: InMemorySpanExporter, error: Exception, expected: type[FeedError]
) -> None:
    with pytest.raises(expected):
        await call(await serve_hydrate(failing(error)), sampled())
    [client] = [span for span in spans.get_finished_spans() if span.kind is SpanKind.CLIENT]
    assert client.status.status_code is StatusCode.ERROR


def test_without_a_recorded_request_a_call_makes_no_span(spans: InMemorySpanExporter) -> None:
    with telemetry.client_span("call", {}):
        pass
    with telemetry.stream_span("stream", {}) as headers:
        assert headers == {}
    telemetry.record_client_span("query", 0.1, {})
    assert spans.get_finished_spans() == ()


def test_after_a_request_nothing_of_it_is_current(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ZeroDivisionError), telemetry.server_span("request", telemetry.extract(sampled()), {}):
        raise ZeroDivisionError
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_only_the_headers_of_the_trace_are_taken_from_metadata() -> None:
    metadata = (("traceparent", "a"), ("tracestate", "b"), ("x-user-id", "17"), ("traceparent-bin", b"c"))
    assert telemetry.carrier_of(metadata) == {"traceparent": "a", "tracestate": "b"}
    assert telemetry.carrier_of(None) == {}


# --- records ----------------------------------------------------------------------------------------------------------


def carrier(number: int, flags: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{number:032x}-{number:016x}-{flags}"}


def consumed(spans: InMemorySpanExporter, *carriers: dict[str, str]) -> tuple[str, list[ReadableSpan]]:
    """The trace that a batch with these headers is handled in, and what is recorded of it."""
    with telemetry.consumer_span("handle", carriers, {"messaging.system": "kafka"}):
        trace_id = telemetry.trace_id()
    return trace_id, list(spans.get_finished_spans())


def test_a_batch_is_one_span_below_its_first_trace_and_linked_to_the_others(spans: InMemorySpanExporter) -> None:
    batch = [
        {},
        carrier(7, "00"),
        {"traceparent": "garbage"},
        carrier(1),
        carrier(2),
        carrier(1),
        carrier(3),
        carrier(2),
    ]
    trace_id, [handled] = consumed(spans, *batch)
    assert trace_id == f"{1:032x}"
    assert handled.kind is SpanKind.CONSUMER
    assert handled.parent and handled.parent.span_id == 1
    assert [link.context.trace_id for link in handled.links] == [2, 3]
    assert handled.attributes == {"messaging.system": "kafka"}


def test_a_batch_of_which_nothing_is_sampled_goes_on_with_its_first_trace(spans: InMemorySpanExporter) -> None:
    assert consumed(spans, {}, carrier(5, "00"), carrier(6, "00")) == (f"{5:032x}", [])


@pytest.mark.parametrize("carriers", [[], [{}], [{"traceparent": "garbage"}, {"traceparent": ""}]])
def test_a_batch_without_any_trace_begins_one(spans: InMemorySpanExporter, carriers: list[dict[str, str]]) -> None:
    trace_id, [handled] = consumed(spans, *carriers)
    assert int(trace_id, 16)
    assert handled.parent is None
    assert not handled.links


def test_a_batch_that_fails_fails_its_span(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ZeroDivisionError), telemetry.consumer_span("handle", [], {}):
        raise ZeroDivisionError
    [handled] = spans.get_finished_spans()
    assert handled.status.status_code is StatusCode.ERROR


def test_what_a_batch_makes_is_part_of_its_trace(spans: InMemorySpanExporter) -> None:
    with telemetry.consumer_span("handle", [carrier(1)], {}) as handling:
        sending, headers = telemetry.producer_span("send", {})
        sending.end()
    assert f"{1:032x}" in headers["traceparent"]
    [sent, _] = spans.get_finished_spans()
    assert sent.parent and sent.parent.span_id == handling.get_span_context().span_id


def test_a_record_outside_any_trace_has_none(spans: InMemorySpanExporter) -> None:
    sending, headers = telemetry.producer_span("send", {})
    sending.end()
    assert headers == {}
    assert not spans.get_finished_spans()
