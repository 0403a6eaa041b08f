"""A collector of traces and metrics: the real OTLP protocol, into lists."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_service
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as _metrics_service_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as _trace_service_grpc
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

# Published without types.
trace_service_grpc, metrics_service_grpc = cast("Any", _trace_service_grpc), cast("Any", _metrics_service_grpc)

SERVER = trace_pb2.Span.SPAN_KIND_SERVER
CLIENT = trace_pb2.Span.SPAN_KIND_CLIENT
PRODUCER = trace_pb2.Span.SPAN_KIND_PRODUCER
CONSUMER = trace_pb2.Span.SPAN_KIND_CONSUMER
_ARROWS: Mapping[int, str] = {CLIENT: "→ ", PRODUCER: "⇒ ", CONSUMER: "⇐ "}


@dataclass(frozen=True)
class CollectedSpan:
    """A span as it arrived."""

    process: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start: int
    end: int
    links: tuple[tuple[str, str], ...]
    """Trace and span id of each span that it is linked to."""


class Collector:
    """Everything that was exported to it, from any loop's point of view: it is served by a thread."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.metrics = _Metrics()

    def Export(self, request: trace_service.ExportTraceServiceRequest, context: object) -> Any:
        """The OTLP method."""
        for resource in request.resource_spans:
            process = dict(_texts(resource.resource.attributes))["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_collected(process, span) for span in scope.spans]
        return trace_service.ExportTraceServiceResponse()

    def counted(self, name: str, **attributes: str) -> int:
        """What a counter with these attributes has come to, all processes and their earlier lives together."""
        wanted = name, frozenset(attributes.items())
        return sum(count for (*_, counter, by), count in self.metrics.counts.items() if (counter, by) == wanted)

    def trace(self, trace_id: str) -> list[CollectedSpan]:
        """The spans of one trace, by start."""
        return sorted((span for span in self.spans if span.trace_id == trace_id), key=lambda span: span.start)

    async def settled_trace(
        self, trace_id: str, complete: Callable[[Sequence[CollectedSpan]], bool]
    ) -> list[CollectedSpan]:
        """The spans of one trace, once `complete` says that they are all there; after 15 s, whatever there is."""
        for _ in range(150):
            if complete(spans := self.trace(trace_id)):
                return spans
            await asyncio.sleep(0.1)
        return self.trace(trace_id)


class _Metrics:
    """Its part that takes metrics."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, int, str, frozenset[tuple[str, str]]], int] = {}
        """What each counter has come to, by process and the beginning of its counting, name and attributes."""

    def Export(self, request: metrics_service.ExportMetricsServiceRequest, context: object) -> Any:
        """The OTLP method."""
        for resource in request.resource_metrics:
            process = dict(_texts(resource.resource.attributes))["service.name"]
            for metric in [metric for scope in resource.scope_metrics for metric in scope.metrics]:
                for point in metric.sum.data_points:
                    attributes = frozenset(_texts(point.attributes))
                    self.counts[process, point.start_time_unix_nano, metric.name, attributes] = point.as_int
        return metrics_service.ExportMetricsServiceResponse()


def _texts(attributes: Iterable[common_pb2.KeyValue]) -> list[tuple[str, str]]:
    return [(attribute.key, attribute.value.string_value) for attribute in attributes]


@contextmanager
def collecting(port: int) -> Generator[Collector]:
    """A collector on a loopback port."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    trace_service_grpc.add_TraceServiceServicer_to_server(collector, server)
    metrics_service_grpc.add_MetricsServiceServicer_to_server(collector.metrics, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()


def tree(spans: Sequence[CollectedSpan]) -> str:
    """A trace as people read it: a line a span, indented under its parent; those without a known parent at the margin."""
    known = {span.span_id for span in spans}
    lines: list[str] = []

    def draw(span: CollectedSpan, depth: int) -> None:
        kind = _ARROWS.get(span.kind, "")
        duration = f"{(span.end - span.start) / 1e6:.1f} ms"
        lines.append(f"{'  ' * depth}{kind}{span.process}: {span.name}  {duration}")
        for child in spans:
            if child.parent_id == span.span_id:
                draw(child, depth + 1)

    for span in spans:
        if span.parent_id not in known:
            draw(span, 0)
    return "\n".join(lines)


def _collected(process: str, span: trace_pb2.Span) -> CollectedSpan:
    return CollectedSpan(
        process,
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
    )
