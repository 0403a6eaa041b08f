"""Real servers for the session, and a relay that slows, cuts and counts what goes to one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import uvloop
from devmesh.backends.postgres import Postgres
from devmesh.backends.valkey import Valkey
from feedkit import postgres, redis
from feedkit.postgres import Database, PostgresSettings
from feedkit.redis import Redis, RedisSettings

Pass = Callable[[asyncio.StreamWriter, bytes], Awaitable[bool]]
"""Passes a piece of data on; False ends the connection."""


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """PostgreSQL with a database `test`."""
    with Postgres(databases=["test"]) as server:
        yield server


@pytest.fixture(scope="session")
def dsn(server: Postgres) -> str:
    """The address of the database `test`."""
    return server.dsn("test")


@pytest.fixture
async def open_database(dsn: str) -> AsyncIterator[Callable[..., Awaitable[Database]]]:
    """Open a pool with any settings."""
    async with AsyncExitStack() as pools:

        async def opened(**settings: Any) -> Database:
            chosen = PostgresSettings.model_validate({"postgres_dsn": dsn, **settings})
            return await pools.enter_async_context(postgres.database(chosen))

        yield opened


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """A Redis server."""
    with Valkey() as server:
        yield server


@pytest.fixture
async def open_redis(valkey: Valkey) -> AsyncIterator[Callable[..., Awaitable[Redis]]]:
    """Open a client with any settings."""
    async with AsyncExitStack() as clients:

        async def opened(**settings: Any) -> Redis:
            chosen = RedisSettings.model_validate({"redis_url": valkey.url, **settings})
            return await clients.enter_async_context(redis.connect(chosen))

        yield opened


@pytest.fixture(scope="session", params=["single", pytest.param("cluster", marks=pytest.mark.real)])
def store(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The settings of a client, of one server and then of a cluster: what one does the other has to do too."""
    if request.param == "single":
        yield {"redis_url": request.getfixturevalue("valkey").url}
        return
    # Only there where the servers are that it needs.
    from tests.servers.redis_cluster import RedisCluster

    with RedisCluster() as cluster:
        yield {"redis_url": cluster.url, "redis_cluster": True}


@pytest.fixture
def open_store(store: dict[str, Any], open_redis: Callable[..., Awaitable[Redis]]) -> Callable[..., Awaitable[Redis]]:
    """Open a client of one server, and then of a cluster, with any settings."""

    async def opened(**settings: Any) -> Redis:
        return await open_redis(**store, **settings)

    return opened


@pytest.fixture(scope="session")
def run(store: dict[str, Any]) -> Iterator[Callable[..., list[Any]]]:
    """Run commands in one round trip, from tests that are not asynchronous, as those with Hypothesis are."""
    settings = RedisSettings.model_validate({**store, "redis_timeout_seconds": 30})
    loop = uvloop.new_event_loop()
    opened = redis.connect(settings)
    client = loop.run_until_complete(opened.__aenter__())
    yield lambda *commands: loop.run_until_complete(client.run(*commands))
    loop.run_until_complete(opened.__aexit__(None, None, None))
    loop.close()


class Relay:
    """A TCP relay to a server; what it does to the bytes can be changed at any time."""

    def __init__(self, port: int) -> None:
        self.address = ""
        self.delay = 0.0
        """How many seconds answers, and hanging up, take longer."""
        self.requests = 0
        """How many pieces of data clients have sent."""
        self.connections = 0
        """How many connections clients have made."""
        self.hang_up_on_requests = 0
        """On how many of the next pieces of data clients are cut off, instead of having them passed on."""
        self.hang_up_after_answer = False
        """Whether to cut a client off after the next answer."""
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def cut(self) -> None:
        """Cut all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Cut all connections and listen no more."""
        if self._server:
            self._server.close()
        await self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        for copy in (self._copy(reader, there_writer, self._forward), self._copy(there_reader, writer, self._answer)):
            task = asyncio.create_task(copy)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on: Pass) -> None:
        try:
            while data := await reader.read(65536):
                if not await on(writer, data):
                    return
        except ConnectionError:
            return  # the other copy ends with its own
        finally:
            writer.close()

    async def _forward(self, writer: asyncio.StreamWriter, data: bytes) -> bool:
        self.requests += 1
        if self.hang_up_on_requests:
            self.hang_up_on_requests -= 1
            await asyncio.sleep(self.delay)
            return False
        writer.write(data)
        await writer.drain()
        return True

    async def _answer(self, writer: asyncio.StreamWriter, data: bytes) -> bool:
        await asyncio.sleep(self.delay)
        writer.write(data)
        await writer.drain()
        hang_up, self.hang_up_after_answer = self.hang_up_after_answer, False
        return not hang_up


@pytest.fixture
async def relay_to() -> AsyncIterator[Callable[[int], Awaitable[Relay]]]:
    """A relay to a port of this machine."""
    relays: list[Relay] = []

    async def start(port: int) -> Relay:
        relay = Relay(port)
        await relay.start()
        relays.append(relay)
        return relay

    yield start
    for relay in relays:
        await relay.stop()
