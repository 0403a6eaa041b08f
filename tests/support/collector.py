"""A collector of traces: the real OTLP protocol, into a list."""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as _trace_service_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

trace_service_grpc = cast("Any", _trace_service_grpc)  # published without types

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

    def Export(self, request: trace_service.ExportTraceServiceRequest, context: object) -> Any:
        """The OTLP method."""
        for resource in request.resource_spans:
            names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_collected(names["service.name"], span) for span in scope.spans]
        return trace_service.ExportTraceServiceResponse()

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


@contextmanager
def collecting(port: int) -> Generator[Collector]:
    """A collector on a loopback port."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    trace_service_grpc.add_TraceServiceServicer_to_server(collector, server)
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
