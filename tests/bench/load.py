"""A closed-loop load on one HTTP address, light enough to leave the processor to what is measured."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """What a load came to."""

    requests: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return self.requests / self.seconds


async def closed_loop(port: int, next_request: Callable[[], bytes], *, connections: int, seconds: float) -> Load:
    """Keep `connections` busy for `seconds`: each sends its next request when it has the answer to the last.

    `next_request` gives a whole HTTP/1.1 request. Any answer but 200 ends the run with an error.
    """
    ends = time.perf_counter() + seconds
    started = time.perf_counter()
    counts = await asyncio.gather(*(_connection(port, next_request, ends) for _ in range(connections)))
    return Load(sum(counts), time.perf_counter() - started)


async def _connection(port: int, next_request: Callable[[], bytes], ends: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    try:
        while time.perf_counter() < ends:
            writer.write(next_request())
            await _read_answer(reader)
            count += 1
    finally:
        writer.close()
    return count


async def _read_answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode(errors="replace") + (await reader.read(1000)).decode(errors="replace"))
    length = next(
        int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    await reader.readexactly(length)


def get(path: str, viewer: int) -> bytes:
    """A GET request for a viewer."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-User-Id: {viewer}\r\n\r\n".encode()
