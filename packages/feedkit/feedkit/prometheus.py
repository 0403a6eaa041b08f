"""Metrics in Prometheus's text formats, for whoever scrapes this process.

Loaded only where `OTEL_METRICS_EXPORTER` says `prometheus`. The standard settings say where they are had:
`OTEL_EXPORTER_PROMETHEUS_HOST` (`localhost` if not set, as the standard has it; `0.0.0.0` in a pod) and
`OTEL_EXPORTER_PROMETHEUS_PORT` (9464; 0 for any that is free). There is neither TLS nor a question who asks: let nobody
but Prometheus reach the port.
"""

import logging
import os
from typing import Any, cast

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_PROMETHEUS_HOST, OTEL_EXPORTER_PROMETHEUS_PORT
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from feedkit.config import ConfigurationError

logger = logging.getLogger(__name__)

HOST = "localhost"
PORT = 9464
LARGEST_PORT = 65535


class Scraped(PrometheusMetricReader):
    """Answers `GET /metrics` from a thread of its own, until the provider of meters is shut down.

    Beside what this process counts it tells its processor time, memory and open files.
    """

    def __init__(self) -> None:
        """Raises ConfigurationError where the settings make no sense, or their address cannot be had."""
        # Not the library's own, which imports fill with figures of the garbage collector that nobody asked for.
        registry = CollectorRegistry()
        self._server, self._thread = _listen(registry)
        ProcessCollector(registry=registry)
        super().__init__(registry=registry, scope_info_enabled=False)
        logger.info("metrics are served", extra={"address": "{}:{}".format(*self._server.server_address[:2])})

    def shutdown(self, timeout_millis: float = 30_000, **_options: Any) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        super().shutdown(timeout_millis)  # pyright: ignore[reportUnknownMemberType] -- published with too few types


def _listen(registry: CollectorRegistry) -> tuple[Any, Any]:
    host = os.environ.get(OTEL_EXPORTER_PROMETHEUS_HOST, "").strip() or HOST
    port = _port()
    try:
        return cast("tuple[Any, Any]", start_http_server(port, host, registry))
    except OSError as error:
        settings = f"{OTEL_EXPORTER_PROMETHEUS_HOST}, {OTEL_EXPORTER_PROMETHEUS_PORT}"
        raise ConfigurationError(f"{settings}: cannot listen on {host}:{port}: {error.strerror or error}") from error


def _port() -> int:
    value = os.environ.get(OTEL_EXPORTER_PROMETHEUS_PORT, "").strip() or str(PORT)
    if not (value.isascii() and value.isdigit() and int(value) <= LARGEST_PORT):
        raise ConfigurationError(f"{OTEL_EXPORTER_PROMETHEUS_PORT}: {value!r} is not a port, 0 to {LARGEST_PORT}")
    return int(value)
