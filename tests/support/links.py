"""Links to servers of this machine that tests slow, cut, or let lose answers."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


class Link:
    """Passes connections on to a port of 127.0.0.1; what it does to them can be changed at any time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._own_port = 0
        self._connections: dict[asyncio.Task[None], None] = {}
        self.seconds: Callable[[], float] = float
        """By how many seconds the answers on a connection are late; asked once for each connection."""
        self.loses_answers = False
        """Whether what is asked arrives, and whoever asked is cut off when it is answered."""

    @property
    def address(self) -> str:
        """`host:port`, where it listens."""
        return f"127.0.0.1:{self._own_port}"

    def instead_of(self, url: str) -> str:
        """The URL of the server, through this link."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}{self.address}"))

    async def cut(self, most: int | None = None) -> None:
        """Cut connections: all, or so many at most, by chance."""
        connections = list(self._connections)
        for connection in random.sample(connections, min(len(connections), most or len(connections))):
            connection.cancel()
        await asyncio.sleep(0)

    async def listen(self) -> asyncio.Server:
        """Begin to take connections."""
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self._own_port = server.sockets[0].getsockname()[1]
        return server

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections[connection] = None
        writers = [writer]
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._port)
            writers.append(server)
            asking = asyncio.create_task(_copy(reader, server))
            answering = asyncio.create_task(self._answer(answers, writer, self.seconds()))
            try:
                await asyncio.wait([asking, answering], return_when=asyncio.FIRST_COMPLETED)
            finally:
                asking.cancel()
                answering.cancel()
        except OSError:
            pass  # the server is away, which whoever asked sees by being cut off
        except asyncio.CancelledError:
            pass  # it was cut
        finally:
            del self._connections[connection]
            for end in writers:
                end.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        while data := await reader.read(65536):
            if self.loses_answers:
                return
            await asyncio.sleep(seconds)
            writer.write(data)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def link_to(address: str) -> AsyncGenerator[Link]:
    """A link to the port of a URL or of `host:port`."""
    port = urlsplit(address if "//" in address else f"//{address}").port
    assert port is not None
    link = Link(port)
    server = await link.listen()
    try:
        yield link
    finally:
        server.close()
        await link.cut()
