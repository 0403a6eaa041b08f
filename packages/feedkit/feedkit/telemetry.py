"""Traces, by light interceptors: spans where work crosses a process, and nothing per field or per row.

The standard settings decide: `OTEL_TRACES_EXPORTER` (`none`, the default here; `otlp`; `console`), `OTEL_TRACES_SAMPLER`
and `OTEL_TRACES_SAMPLER_ARG`, `OTEL_EXPORTER_OTLP_*`, `OTEL_SDK_DISABLED`. Without an exporter there are still trace ids,
in logs and in what is passed on, but no span is recorded.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from feedkit.config import ConfigurationError

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 3.0
"""How long a stopping process waits for its collector. A dead collector must not hold up an exit."""

_EXPORTERS: Mapping[str, Callable[[], SpanExporter] | None] = {
    "": None,
    "none": None,
    "otlp": OTLPSpanExporter,
    "console": ConsoleSpanExporter,
}
_tracer = trace.get_tracer("feedkit")
_propagator = TraceContextTextMapPropagator()


@contextmanager
def configured(process: str) -> Generator[None]:
    """Make traces as the environment says, and flush them at the end, for a bounded time.

    Raises ConfigurationError for `OTEL_*` settings that the exporter cannot use.
    """
    exporter = _exporter()
    resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME") or process})
    provider = TracerProvider(resource=resource, sampler=None if exporter else ALWAYS_OFF, shutdown_on_exit=False)
    if exporter:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        _shut_down(provider)


def _exporter() -> SpanExporter | None:
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if name not in _EXPORTERS:
        logger.warning("OTEL_TRACES_EXPORTER is not one of none, otlp, console; no traces", extra={"value": name})
    make = _EXPORTERS.get(name)
    try:
        return make() if make else None
    except Exception as error:
        raise ConfigurationError(f"OTEL_EXPORTER_OTLP_*: {error}") from error


def _shut_down(provider: TracerProvider) -> None:
    # A daemon thread, because the exporter's own shutdown may retry far beyond any grace period.
    flush = threading.Thread(target=provider.shutdown, daemon=True)
    flush.start()
    flush.join(FLUSH_SECONDS)
    if flush.is_alive():
        logger.warning("the trace collector did not answer; the last spans are lost")


def extract(carrier: Mapping[str, str]) -> context.Context:
    """The context of a caller from W3C headers. A malformed or missing `traceparent` gives a context without a span."""
    return _propagator.extract(carrier, context=context.Context())


def inject(carrier: MutableMapping[str, str]) -> None:
    """Write the current context into W3C headers."""
    _propagator.inject(carrier)


def trace_id() -> str:
    """The id of the current trace: 32 hexadecimal digits, all zero outside any."""
    return f"{trace.get_current_span().get_span_context().trace_id:032x}"


@contextmanager
def server_span(name: str, parent: context.Context, attributes: Mapping[str, AttributeValue]) -> Generator[Span]:
    """The span of a request that this process serves, current within the block."""
    span = _tracer.start_span(name, parent, SpanKind.SERVER, attributes)
    token = context.attach(trace.set_span_in_context(span, parent))
    try:
        yield span
    except Exception as error:
        fail(span, error)
        raise
    finally:
        context.detach(token)
        span.end()


@contextmanager
def client_span(name: str, attributes: Mapping[str, AttributeValue]) -> Generator[Span]:
    """The span of a call that this process makes. Nothing is made where the request is not being recorded."""
    current = trace.get_current_span()
    if not current.is_recording():
        yield current
        return
    span = _tracer.start_span(name, None, SpanKind.CLIENT, attributes)
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield span
    except Exception as error:
        fail(span, error)
        raise
    finally:
        context.detach(token)
        span.end()


@contextmanager
def stream_span(name: str, attributes: Mapping[str, AttributeValue]) -> Generator[dict[str, str]]:
    """The span of a call whose answer comes bit by bit. Gives the W3C headers to send; the span is never current."""
    current = trace.get_current_span()
    headers: dict[str, str] = {}
    if not current.is_recording():
        inject(headers)
        yield headers
        return
    span = _tracer.start_span(name, None, SpanKind.CLIENT, attributes)
    _propagator.inject(headers, trace.set_span_in_context(span))
    try:
        yield headers
    except Exception as error:
        fail(span, error)
        raise
    finally:
        span.end()


def record_client_span(
    name: str, seconds: float, attributes: Mapping[str, AttributeValue], error: BaseException | None = None
) -> None:
    """Record a call that ended just now and took `seconds`, under the current span."""
    if not trace.get_current_span().is_recording():
        return
    now = time.time_ns()
    span = _tracer.start_span(name, None, SpanKind.CLIENT, attributes, start_time=now - int(seconds * 1e9))
    if error is not None:
        fail(span, error)
    span.end(now)


def fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed."""
    span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")


def is_recording() -> bool:
    """Whether the request being served is recorded."""
    return trace.get_current_span().is_recording()


def carrier_of(metadata: Sequence[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """The W3C headers among gRPC metadata."""
    return {
        key: value for key, value in metadata or () if key in ("traceparent", "tracestate") and isinstance(value, str)
    }
