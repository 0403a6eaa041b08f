"""A TCP relay to Redis that keeps what was asked, and can be silent, or away."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Relay:
    """A relay to a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.asked: list[bytes] = []
        """Every piece of data that a client sent, which is one for each round trip."""
        self._there = port
        self._passing = asyncio.Event()
        self._passing.set()
        self._copies: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, at the same port every time."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut all connections, and listen no more."""
        if self._server is not None:
            self._server.close()
        for copy in self._copies:
            copy.cancel()
        await asyncio.gather(*self._copies, return_exceptions=True)

    def freeze(self) -> None:
        """Take everything, and answer nothing."""
        self._passing.clear()

    def thaw(self) -> None:
        """Pass everything on again."""
        self._passing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._there)
        for copy in (self._copy(reader, there_writer, self.asked), self._copy(there_reader, writer, [])):
            task = asyncio.create_task(copy)
            self._copies.add(task)
            task.add_done_callback(self._copies.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: list[bytes]) -> None:
        try:
            while data := await reader.read(2**20):
                pieces.append(data)
                await self._passing.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return  # the other copy ends with its own
        finally:
            writer.close()


@asynccontextmanager
async def relaying(port: int) -> AsyncGenerator[Relay]:
    """A relay to a port, running."""
    relay = Relay(port)
    await relay.start()
    try:
        yield relay
    finally:
        relay.thaw()
        await relay.stop()
