"""One HTTP connection, as uvicorn serves it, with the limits and the refusals that uvicorn does not have.

Everything here happens before there is a request that the application could see: heads that do not end, heads that do not
come, and bytes that are no HTTP. What it builds on is private to uvicorn 0.54, which the lock pins: `cycle` is the newest
request of the connection and its answer, `pipeline` holds those that wait for the answers before theirs, and the parser
calls the `on_…` methods while it is fed.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import httptools
from feedkit import errors, telemetry
from feedkit.errors import FieldViolation
from opentelemetry.trace import StatusCode
from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway import problems
from gateway.answers import Answer, Header
from gateway.body_limit import DROPPED_BYTES, TOO_LARGE
from gateway.config import GatewaySettings
from gateway.problems import MALFORMED_REQUEST, REQUEST_TIMEOUT, Problem

logger = logging.getLogger(__name__)

FAREWELL_SECONDS = 2.0
"""How long a refused client may go on sending: closing a connection that still receives resets it, and the client may then
never see the answer."""
LONGEST_URL = 65535
"""What httptools can tell apart into path and query."""

_CLOSE: Header = (b"connection", b"close")
_DEAF = sys.maxsize
"""A count that leaves no room: whatever else arrives on the connection is dropped unread."""


def limited(settings: GatewaySettings) -> type["LimitedHttp"]:
    """The protocol with these limits, for uvicorn, which wants a class."""

    class Limited(LimitedHttp):
        max_head_bytes = settings.http_max_head_bytes
        head_seconds = settings.http_head_seconds

    return Limited


class LimitedHttp(HttpToolsProtocol):
    """A connection on which no head is longer, and none takes longer, than is allowed."""

    max_head_bytes: int
    head_seconds: float
    parser: httptools.HttpRequestParser

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unfinished = 0
        """Bytes given to the parser since it last had something to show for them: the parser keeps what it cannot hand on
        yet, and copies it whenever more is added. A head is all of it; chunk sizes and trailers are held to it as well."""
        self._in_head = True
        self.url = b""
        self._deadline: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the client time to say something."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, with no more than the limit allows."""
        self._unset_keepalive_if_required()
        if self._unfinished + len(data) <= self.max_head_bytes:
            self._feed(data)
        else:
            self._feed_in_pieces(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        self._stop_waiting()
        super().connection_lost(exc)

    # What the parser calls.

    def on_headers_complete(self) -> None:
        """A request begins to be served."""
        self._unfinished = 0
        self._in_head = False
        if self._deadline is not None:
            self._stop_waiting()
        super().on_headers_complete()
        # Trailers are read as headers. They go to nobody: a request must not get other headers after it has begun.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """What has been handed on is the business of the layer that limits bodies."""
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The next byte belongs to another head."""
        self._unfinished = 0
        self._in_head = True
        super().on_message_complete()

    # What the server calls.

    def shutdown(self) -> None:
        """Begin to end. A request that is not complete has done nothing yet and can be sent again, elsewhere."""
        if self.cycle and not self.cycle.response_complete and self.cycle.more_body:
            self._refuse(_timeout("the server stops; the request can be sent again"))
        else:
            super().shutdown()

    # Reading.

    def _feed(self, data: bytes) -> None:
        self._unfinished += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse(_malformed(error, len(self.url)))
        except httptools.HttpParserUpgrade:
            # Nothing is upgraded to. The request is answered, and is the last: the parser skips the body of a request
            # that asks for an upgrade, so that what comes next may look like a request and be none.
            self._end_after_answers()
        else:
            if self._unfinished == len(data) and self._in_head:
                # The first bytes of a head, and not all of it.
                self._await_head()

    def _feed_in_pieces(self, data: bytes) -> None:
        """Many requests at once, or much of a body, are as good as ever: only what finishes nothing is too much."""
        while data and not self.transport.is_closing() and self._unfinished != _DEAF:
            room = self.max_head_bytes - self._unfinished
            if room <= 0:
                self._refuse(self._too_large())
                return
            self._feed(data[:room])
            data = data[room:]

    def _too_large(self) -> Problem:
        if self._in_head and not self.headers and 2 * len(self.url) > self.max_head_bytes:
            return _too_long_url()
        rule = f"must be at most {self.max_head_bytes} bytes, with the request line"
        return Problem(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            TOO_LARGE,
            f"headers: {rule}",
            [FieldViolation("headers", rule)],
        )

    # Waiting.

    def _await_head(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _head_is_late(self) -> None:
        if self._unfinished:
            self._refuse(_timeout(f"headers: must arrive within {self.head_seconds:g} seconds"))
        else:
            # Nothing has been asked, so there is nothing to answer.
            self.transport.close()

    # Refusing.

    def _refuse(self, problem: Problem) -> None:
        """Answer, where it is the turn of what is refused, and end the connection."""
        if not self.cycle or self.cycle.response_complete:
            self._part_with(problem)
        elif not self.cycle.more_body:
            # The answers under way belong to the requests before; another one now would be taken for one of theirs.
            self._end_after_answers()
        elif self.pipeline:
            # It gets its answer when it is its turn. The newest is on the left.
            self.pipeline[0] = (self.cycle, _refusing(problem))
            self._end_after_answers()
        elif self.cycle.response_started:
            self.transport.close()
        else:
            self._part_with(problem)

    def _end_after_answers(self) -> None:
        self._unfinished = _DEAF
        self._stop_waiting()
        if self.cycle.response_complete:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def _part_with(self, problem: Problem) -> None:
        self._unfinished = _DEAF
        transport = self.transport
        if transport.is_closing():
            return
        transport.write(_on_the_wire(_traced(problem), self.server_state.default_headers))
        self.flow.resume_reading()
        # For the server this connection is over. Without an error, uvicorn would close the transport as well.
        self.connection_lost(ConnectionAbortedError(problem.detail))
        _Farewell(self.loop, transport)


class _Farewell(asyncio.Protocol):
    """The end of a connection that has had its last answer: drops what still arrives, until the client ends it too."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._dropped = 0
        self._deadline = loop.call_later(FAREWELL_SECONDS, transport.abort)
        transport.set_protocol(self)
        transport.write_eof()

    def data_received(self, data: bytes) -> None:
        """Drop."""
        self._dropped += len(data)
        if self._dropped > DROPPED_BYTES:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._deadline.cancel()


def _malformed(error: httptools.HttpParserError, url_bytes: int) -> Problem:
    why = str(error)
    if isinstance(error, httptools.HttpParserCallbackError):
        cause = error.__context__
        if not isinstance(cause, (httptools.HttpParserInvalidURLError, UnicodeError)):
            logger.error("unforeseen error", exc_info=cause)
            return problems.of(errors.Internal())
        if url_bytes > LONGEST_URL:
            return _too_long_url()
        why = "Invalid url"
    if why in ("Content-Length overflow", "Chunk size overflow"):
        rule = "is larger than any that is accepted"
        violations = [FieldViolation("body", rule)]
        return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE, f"body: {rule}", violations)
    if why == "Pause on PRI/Upgrade":
        why = "HTTP/2 is not spoken here"
    return Problem(HTTPStatus.BAD_REQUEST, MALFORMED_REQUEST, f"this is not HTTP/1.1: {why}")


def _too_long_url() -> Problem:
    return Problem(HTTPStatus.REQUEST_URI_TOO_LONG, MALFORMED_REQUEST, "the URL is too long")


def _timeout(detail: str) -> Problem:
    return Problem(HTTPStatus.REQUEST_TIMEOUT, REQUEST_TIMEOUT, detail)


def _refusing(problem: Problem) -> Any:
    async def refusing(_scope: object, _receive: object, send: Send) -> None:
        await _traced(problem).send(send)

    return refusing


def _traced(problem: Problem) -> Answer:
    # The caller's trace is not known: its header may be what could not be read.
    with telemetry.server_span("HTTP", telemetry.extract({}), {"http.request.method": "_OTHER"}) as span:
        span.set_attribute("http.response.status_code", problem.status.value)
        if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_status(StatusCode.ERROR)
        return problem.answer()


def _on_the_wire(answer: Answer, default_headers: Sequence[Header]) -> bytes:
    headers = [*default_headers, *answer.headers, (b"content-length", b"%d" % len(answer.body)), _CLOSE]
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    status = HTTPStatus(answer.status)
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, status.phrase.encode(), lines, answer.body)
