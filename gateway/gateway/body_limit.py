"""Request bodies are read whole, within a size and a time, before the work on a request begins."""

import asyncio
import sys
from http import HTTPStatus

from feedkit.errors import FieldViolation
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.answers import Header
from gateway.problems import REQUEST_TIMEOUT, Problem

READ_SECONDS = 30.0
"""How long a client may take to send its body."""
DROPPED_BYTES = 32 * 1024 * 1024
"""How much of a refused body is read and dropped. Closing a connection that still receives resets it, and the client may
then never see the answer."""

TOO_LARGE = "MESSAGE_TOO_LARGE"
_COUNTED_DIGITS = 18
"""Sizes of more digits are all the same: too large."""

_CLOSE: Header = (b"connection", b"close")


class _Disconnected(Exception):
    """The client has gone before its request was complete."""


class BodyLimit:
    """The ASGI layer that hands bodies on complete, or answers 413 or 408."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. Nothing is answered where the client has gone."""
        declared, expects_continue = _announced(scope)
        if declared == 0 and scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        if declared is not None and declared > self._max_bytes:
            # A client that waits for leave to send does not get it, and has nothing to drop.
            await self._refuse(receive, send, drop=not expects_continue)
            return
        try:
            body = await self._read(receive)
        except _Disconnected:
            return
        if body is None:
            await self._refuse(receive, send, drop=True)
            return
        await self._app(scope, _once(body), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None where it is too large, with the rest of it unread."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(READ_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Disconnected
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._max_bytes:
                        return None
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise _too_slow() from None

    async def _refuse(self, receive: Receive, send: Send, *, drop: bool) -> None:
        # The answer goes out before the rest is read, so a client that looks can stop sending.
        answer = _too_large(self._max_bytes).answer()
        await answer.start(send)
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        if drop:
            await _drop(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _announced(scope: Scope) -> tuple[int | None, bool]:
    """The size of the body as far as the headers tell, None where they do not; and whether the client waits for leave."""
    length: int | None = 0
    expects_continue = False
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = _size(value) if value.isdigit() else None
        elif name == b"transfer-encoding":
            length = None
        elif name == b"expect":
            expects_continue = True
    return length, expects_continue


def _size(digits: bytes) -> int:
    # Python refuses to make numbers of thousands of digits, leading zeros included.
    significant = digits.lstrip(b"0")
    return int(significant or b"0") if len(significant) <= _COUNTED_DIGITS else sys.maxsize


async def _drop(receive: Receive) -> None:
    dropped = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            while dropped < DROPPED_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                dropped += len(message.get("body", b""))
    except TimeoutError:
        return


def _once(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _too_large(max_bytes: int) -> Problem:
    rule = f"must be at most {max_bytes} bytes"
    return Problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        TOO_LARGE,
        f"body: {rule}",
        violations=[FieldViolation("body", rule)],
        headers=[_CLOSE],
    )


def _too_slow() -> Problem:
    rule = f"must arrive within {READ_SECONDS:g} seconds"
    return Problem(
        HTTPStatus.REQUEST_TIMEOUT,
        REQUEST_TIMEOUT,
        f"body: {rule}",
        violations=[FieldViolation("body", rule)],
        headers=[_CLOSE],
    )
