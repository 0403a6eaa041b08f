"""What goes back to a client: a status, headers and a body that is complete before its first byte is sent."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from starlette.types import Send

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
PRIVATE: Header = (b"cache-control", b"no-store")
"""What is shown depends on who looks and changes at any time, so nobody on the way may keep it."""

encode = msgspec.json.Encoder().encode


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes = b""
    headers: Sequence[Header] = ()

    async def send(self, send: Send) -> None:
        """Send it whole. For HEAD the server leaves out the body and keeps the headers."""
        await self.start(send)
        await send({"type": "http.response.body", "body": self.body})

    async def start(self, send: Send) -> None:
        """Send status and headers alone."""
        headers = list(self.headers)
        if self.status != 204:
            headers.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})


def ok(content: object, status: int = 200) -> Answer:
    """Content as JSON."""
    return Answer(status, encode(content), (JSON, PRIVATE))


def created(location: str, content: object, *headers: Header) -> Answer:
    """201: something new, and where it is."""
    return Answer(201, encode(content), (JSON, PRIVATE, (b"location", location.encode()), *headers))


NO_CONTENT = Answer(204, headers=(PRIVATE,))
"""204: done, and nothing to say about it."""
