"""Traces, by light interceptors: spans where work crosses a process, and nothing per field or per row. And metrics.

The standard settings decide: `OTEL_TRACES_EXPORTER` (`none`, the default here; `otlp`; `console`), `OTEL_METRICS_EXPORTER`
(likewise, or `prometheus`; several by commas), `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`,
`OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_EXPORTER_OTLP_*`, `OTEL_EXPORTER_PROMETHEUS_HOST` and `_PORT`, `OTEL_SDK_DISABLED`.
Without an exporter of traces there are still trace ids, in logs and in what is passed on, but no span is recorded; without
one of metrics nothing is counted.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from opentelemetry import context, metrics, trace
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from feedkit.config import ConfigurationError

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 3.0
"""How long a stopping process waits for its collector. A dead collector must not hold up an exit."""

READING_SECONDS = 60.0
"""How long a reading is told on. Whatever takes readings takes several in that time."""
SECONDS_BOUNDARIES = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""How finely durations are told apart: most so around what a reader should wait for at most, 0.2 s."""

_tracer = trace.get_tracer("feedkit")
_propagator = TraceContextTextMapPropagator()
_ids = RandomIdGenerator()
_NOBODY = context.Context()


@contextmanager
def configured(process: str) -> Generator[None]:
    """Make traces and metrics as the environment says, and flush them at the end, for a bounded time.

    Raises ConfigurationError for `OTEL_*` settings that an exporter cannot use.
    """
    resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME") or process})
    exporters = _chosen("OTEL_TRACES_EXPORTER", _SPAN_EXPORTERS)
    readers = _chosen("OTEL_METRICS_EXPORTER", _METRIC_READERS)
    flushes: dict[str, Callable[[], None]] = {}
    if exporters:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in exporters:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(tracers)
        flushes["spans"] = tracers.shutdown
    else:
        trace.set_tracer_provider(_PassingProvider())
    if readers:
        meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        flushes["metrics"] = meters.shutdown
    try:
        yield
    finally:
        _flush(flushes)


Made = TypeVar("Made")


def _chosen(setting: str, makes: Mapping[str, Callable[[], Made] | None]) -> list[Made]:
    """What a setting names, made; it may name several, by commas."""
    if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
        return []
    chosen: list[Made] = []
    for name in {name.strip().lower(): None for name in os.environ.get(setting, "").split(",")}:
        if name not in makes:
            known = ", ".join(filter(None, makes))
            logger.warning("%s is not one of %s; taken as none", setting, known, extra={"value": name})
        elif make := makes[name]:
            chosen.append(make())
    return chosen


def _exporter(make: Callable[[], Made]) -> Made:
    try:
        return make()
    except Exception as error:
        raise ConfigurationError(f"OTEL_EXPORTER_OTLP_*: {error}") from error


def _pushed(make: Callable[[], MetricExporter]) -> MetricReader:
    exporter = _exporter(make)
    try:
        return PeriodicExportingMetricReader(exporter)
    except ValueError as error:
        raise ConfigurationError(f"OTEL_METRIC_EXPORT_INTERVAL: {error}") from error


def _scraped() -> MetricReader:
    # Loaded by those alone who want it: it takes time and memory.
    from feedkit.prometheus import Scraped

    return Scraped()


_SPAN_EXPORTERS: Mapping[str, Callable[[], SpanExporter] | None] = {
    "": None,
    "none": None,
    "otlp": lambda: _exporter(OTLPSpanExporter),
    "console": ConsoleSpanExporter,
}
_METRIC_READERS: Mapping[str, Callable[[], MetricReader] | None] = {
    "": None,
    "none": None,
    "otlp": lambda: _pushed(OTLPMetricExporter),
    "console": lambda: _pushed(ConsoleMetricExporter),
    "prometheus": _scraped,
}


class _PassingTracer(trace.NoOpTracer):
    """Records nothing. What the caller sent is passed on as it came; without a caller there is a new trace id."""

    def start_span(self, name: str, context: context.Context | None = None, *args: Any, **options: Any) -> Span:
        """A span that is none."""
        above = trace.get_current_span(context).get_span_context()
        if not above.is_valid:
            above = SpanContext(_ids.generate_trace_id(), _ids.generate_span_id(), is_remote=False)
        return trace.NonRecordingSpan(above)


class _PassingProvider(trace.TracerProvider):
    """Stands for the SDK, whose spans cost five microseconds even where none is recorded."""

    def get_tracer(self, *args: Any, **options: Any) -> trace.Tracer:
        """The tracer."""
        return _PassingTracer()


def _flush(flushes: Mapping[str, Callable[[], None]]) -> None:
    # At the same time, and in daemon threads: an exporter's own shutdown may retry far beyond any grace period.
    threads = {what: threading.Thread(target=flush, daemon=True) for what, flush in flushes.items()}
    ends = time.monotonic() + FLUSH_SECONDS
    for thread in threads.values():
        thread.start()
    for what, thread in threads.items():
        thread.join(max(ends - time.monotonic(), 0))
        if thread.is_alive():
            logger.warning("the collector did not answer; the last %s are lost", what)


def is_measuring() -> bool:
    """Whether anybody wants metrics. What is dear to find out need not be where nobody does."""
    return isinstance(metrics.get_meter_provider(), MeterProvider)


def counter(name: str, *, unit: str, description: str) -> metrics.Counter:
    """A counter of this process, by its OpenTelemetry name and UCUM unit. Where metrics are off, it does nothing."""
    return metrics.get_meter("feedkit").create_counter(name, unit, description)


def durations(name: str, *, description: str) -> metrics.Histogram:
    """How long something takes, in seconds, as a histogram. Where metrics are off, it does nothing."""
    meter = metrics.get_meter("feedkit")
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=SECONDS_BOUNDARIES)


class Reading:
    """The latest value of something that is looked at now and then, such as a backlog.

    It is told for `READING_SECONDS`, and then no more: what nobody could read since is not known.
    """

    def __init__(self, name: str, *, unit: str, description: str) -> None:
        """By its OpenTelemetry name and UCUM unit."""
        self._latest: dict[tuple[tuple[str, AttributeValue], ...], tuple[float, float]] = {}
        metrics.get_meter("feedkit").create_observable_gauge(name, [self._tell], unit, description)

    def set(self, value: float, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        """Note what was read just now."""
        self._latest[tuple((attributes or {}).items())] = value, time.monotonic()

    def _tell(self, _options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        since = time.monotonic() - READING_SECONDS
        # A copy, because metrics are told from other threads.
        latest = self._latest.copy()
        return [metrics.Observation(value, dict(of)) for of, (value, read_at) in latest.items() if read_at > since]


def extract(carrier: Mapping[str, str]) -> context.Context:
    """The context of a caller from W3C headers. A malformed or missing `traceparent` gives a context without a span."""
    return _propagator.extract(carrier, context=context.Context())


def caller(metadata: Sequence[tuple[str, str | bytes]] | None) -> context.Context:
    """The context of a caller from gRPC metadata."""
    for key, _ in metadata or ():
        if key == "traceparent":
            return extract(carrier_of(metadata))
    return _NOBODY


def inject(carrier: MutableMapping[str, str]) -> None:
    """Write the current context into W3C headers."""
    _propagator.inject(carrier)


def trace_id() -> str:
    """The id of the current trace: 32 hexadecimal digits, all zero outside any."""
    return f"{trace.get_current_span().get_span_context().trace_id:032x}"


class _Current:
    """A span while it is the current one; a plain class, because a generator's frames cost a microsecond a call."""

    __slots__ = ("_context", "_span", "_token")

    def __init__(self, span: Span, parent: context.Context | None = None) -> None:
        self._span = span
        self._context = trace.set_span_in_context(span, parent)

    def __enter__(self) -> Span:
        self._token = context.attach(self._context)
        return self._span

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        context.detach(self._token)
        if isinstance(error, Exception):
            fail(self._span, error)
        self._span.end()


def server_span(
    name: str, parent: context.Context, attributes: Mapping[str, AttributeValue]
) -> AbstractContextManager[Span]:
    """The span of a request that this process serves, current within the block."""
    return _Current(_tracer.start_span(name, parent, SpanKind.SERVER, attributes), parent)


def client_span(name: str, attributes: Mapping[str, AttributeValue]) -> AbstractContextManager[Span]:
    """The span of a call that this process makes. Nothing is made where the request is not being recorded."""
    current = trace.get_current_span()
    if not current.is_recording():
        return nullcontext(current)
    return _Current(_tracer.start_span(name, None, SpanKind.CLIENT, attributes))


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


def producer_span(
    name: str, attributes: Mapping[str, AttributeValue], parent: context.Context | None = None
) -> tuple[Span, dict[str, str]]:
    """The span of a record that is sent on, and the W3C headers to send with it.

    `parent` is the current context unless given. The span is never current, because many records are on their way at
    once; whoever asked for it ends it. Nothing is recorded, and the parent is passed on, where that is not sampled.
    """
    headers: dict[str, str] = {}
    if not _sampled(parent):
        _propagator.inject(headers, parent)
        return trace.INVALID_SPAN, headers
    span = _tracer.start_span(name, parent, SpanKind.PRODUCER, attributes)
    _propagator.inject(headers, trace.set_span_in_context(span, parent))
    return span, headers


def consumer_span(
    name: str, carriers: Sequence[Mapping[str, str]], attributes: Mapping[str, AttributeValue]
) -> AbstractContextManager[Span]:
    """The span of the handling of some records, given by their W3C headers; current within the block.

    One span for a whole batch: the child of the first record that is sampled, linked to all other sampled ones. Where
    none is, nothing is recorded and the first trace is passed on. A malformed `traceparent` counts as none.
    """
    found = [found for carrier in carriers if (found := extract(carrier))]
    sampled = {_span_context(one).span_id: one for one in found if _sampled(one)}
    if not sampled:
        parent = found[0] if found else _NOBODY
        return _Current(_tracer.start_span(name, parent, SpanKind.CONSUMER, attributes), parent)
    [parent, *others] = sampled.values()
    links = [Link(_span_context(other)) for other in others]
    return _Current(_tracer.start_span(name, parent, SpanKind.CONSUMER, attributes, links), parent)


def _span_context(of: context.Context | None) -> SpanContext:
    return trace.get_current_span(of).get_span_context()


def _sampled(parent: context.Context | None) -> bool:
    return _span_context(parent).trace_flags.sampled


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
