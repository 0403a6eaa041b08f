"""Structured logs: one JSON object a line on standard error, with the trace that a line belongs to."""

import logging
import sys

from opentelemetry import trace
from pythonjsonlogger.json import JsonFormatter


def configure(process: str, level: str) -> None:
    """Send every log of this process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonFormatter(
        "%(levelname)s %(name)s %(message)s",
        rename_fields={"levelname": "level", "name": "logger"},
        static_fields={"process": process},
        timestamp=True,
    )
    handler.setFormatter(formatter)
    handler.addFilter(_add_trace)
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _add_trace(record: logging.LogRecord) -> bool:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        record.trace_id = f"{context.trace_id:032x}"
    return True
