"""The span of a request."""

from collections.abc import Iterator

import pytest
from feedkit import telemetry
from gateway.tracing import Tracing
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
Headers = list[tuple[bytes, bytes]]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


async def serve(
    spans: InMemorySpanExporter, headers: Headers, *, status: int = 200, template: str = "/api/users/{id}"
) -> ReadableSpan:
    """The span of one request to a server that answers with `status`."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if template:
            scope["route"] = Route(template, app)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        # Still under way while the last byte goes out.
        assert trace.get_current_span().is_recording(), message

    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/api/users/7", "headers": headers}
    await Tracing(app)(scope, receive, send)
    (span,) = spans.get_finished_spans()
    return span


async def test_a_caller_s_trace_is_continued(spans: InMemorySpanExporter) -> None:
    span = await serve(spans, [(b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())])
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)


@pytest.mark.parametrize(
    "traceparent", [b"", b"junk", b"\xff", b"00-0-0-01", f"00-{'0' * 32}-{PARENT}-01".encode(), b"0" * 10_000]
)
async def test_a_malformed_one_starts_a_new_trace(spans: InMemorySpanExporter, traceparent: bytes) -> None:
    span = await serve(spans, [(b"traceparent", traceparent)])
    assert span.parent is None


async def test_a_span_is_named_after_the_route_and_not_the_path(spans: InMemorySpanExporter) -> None:
    span = await serve(spans, [])
    assert span.name == "GET /api/users/{id}"


async def test_an_unknown_path_gives_no_name(spans: InMemorySpanExporter) -> None:
    span = await serve(spans, [], status=404, template="")
    assert span.name == "GET"


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, StatusCode.UNSET), (404, StatusCode.UNSET), (500, StatusCode.ERROR), (503, StatusCode.ERROR)],
)
async def test_only_our_own_failures_are_errors(spans: InMemorySpanExporter, status: int, code: StatusCode) -> None:
    span = await serve(spans, [], status=status)
    assert span.status.status_code is code
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == status
