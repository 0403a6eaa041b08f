"""A log line is one JSON object, with the trace that it belongs to."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from feedkit import logs, telemetry

logger = logging.getLogger("a.logger")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """Logs as `post` configures them; what has been written."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()  # configuring would close them, and they are pytest's
    errors = StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    logs.configure("post", "INFO")
    yield lambda: [json.loads(line) for line in errors.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_tells_who_when_what_and_how_grave(lines: Lines) -> None:
    logger.warning("not ready: %s", "postgres", extra={"address": "127.0.0.1:1"})
    [line] = lines()
    assert line.pop("timestamp")
    assert line == {
        "level": "WARNING",
        "logger": "a.logger",
        "message": "not ready: postgres",
        "process": "post",
        "address": "127.0.0.1:1",
    }


def test_less_than_the_level_is_not_logged(lines: Lines) -> None:
    logger.debug("a detail")
    assert lines() == []


def test_an_exception_stays_on_the_line(lines: Lines) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("it failed")
    [line] = lines()
    assert "ValueError: two\nlines" in line["exc_info"]


@pytest.mark.parametrize("text", ["a\r\nb", "\ud800", "\x00", "字"])
def test_no_text_breaks_the_line(text: str, lines: Lines) -> None:
    logger.info("%s", text)
    [line] = lines()
    assert line["message"] == text


@pytest.mark.usefixtures("spans")
@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_request_that_is_served_gives_its_trace_id(flags: str, lines: Lines) -> None:
    parent = telemetry.extract({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-{flags}"})
    with telemetry.server_span("request", parent, {}):
        logger.info("within")
    logger.info("after")
    within, after = lines()
    assert within["trace_id"] == TRACE
    assert "trace_id" not in after
