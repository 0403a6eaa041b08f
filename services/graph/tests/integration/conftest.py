"""A real PostgreSQL, migrated, and a real Redis for the session; the use cases on them; the service as a process."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from importlib.resources import files
from typing import Any

import asyncpg
import grpc
import grpc.aio
import pytest
from devmesh.backends.postgres import Postgres
from devmesh.backends.valkey import Valkey
from devmesh.child import Child
from devmesh.ports import free_ports
from feed.graph.v1 import accounts_pb2_grpc, graph_pb2, graph_pb2_grpc
from feedkit import channel, postgres, redis
from feedkit.invalidation import Invalidation
from feedkit.postgres import Database
from feedkit.redis import Redis
from graph_service.cache_store import CacheStore
from graph_service.config import GraphSettings
from graph_service.follower_counts import shard_of
from graph_service.store import Store
from grpc_health.v1 import health_pb2, health_pb2_grpc

OPERATOR_TOKEN = "for-operators-alone"  # noqa: S105 (a server of these tests)
START_SECONDS = 20.0
STOP_SECONDS = 20.0

OpenDatabase = Callable[..., Awaitable[Database]]
Metadata = tuple[tuple[str, str], ...]
MakeUsers = Callable[[int], Awaitable[list[int]]]
MakeCrowd = Callable[[int], Awaitable[tuple[int, list[int]]]]


def settings_for(dsn: str, redis_url: str = "redis://127.0.0.1:1", **more: Any) -> GraphSettings:
    patient = {"postgres_acquire_seconds": 30.0, "postgres_statement_seconds": 30.0}
    return GraphSettings.model_validate({"postgres_dsn": dsn, "redis_url": redis_url, **patient, **more})


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with Postgres(databases=["graph"]) as server:
        yield server


@pytest.fixture(scope="session")
def dsn(server: Postgres) -> str:
    dsn = server.dsn("graph")
    asyncio.run(postgres.migrate(settings_for(dsn), files("graph_service") / "migrations"))
    return dsn


@pytest.fixture
async def open_database(dsn: str) -> AsyncIterator[OpenDatabase]:
    """Opens pools with settings of the test's own."""
    async with AsyncExitStack() as pools:

        async def opened(**settings: Any) -> Database:
            return await pools.enter_async_context(postgres.database(settings_for(dsn, **settings)))

        yield opened


@pytest.fixture
async def database(open_database: OpenDatabase) -> Database:
    return await open_database()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
async def redis_client(dsn: str, valkey: Valkey) -> AsyncIterator[Redis]:
    async with redis.connect(settings_for(dsn, valkey.url)) as client:
        yield client


@pytest.fixture
def caches(redis_client: Redis) -> CacheStore:
    return CacheStore(Invalidation(redis_client))


@pytest.fixture
async def sql(dsn: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A connection beside the service's own."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
def make_users(sql: "asyncpg.Connection[asyncpg.Record]") -> MakeUsers:
    """Makes users without the service, and returns their ids, ascending."""

    async def make(count: int) -> list[int]:
        query = "INSERT INTO users (name) SELECT 'user ' || n FROM generate_series(1, $1::int) n RETURNING id"
        return sorted([row["id"] for row in await sql.fetch(query, count)])

    return make


@pytest.fixture
def make_crowd(sql: "asyncpg.Connection[asyncpg.Record]", make_users: MakeUsers) -> MakeCrowd:
    """Makes a celebrity with many followers, faster than the service could; both, the followers ascending."""

    async def make(count: int) -> tuple[int, list[int]]:
        celebrity, *followers = await make_users(count + 1)
        parts = Counter(shard_of(follower) for follower in followers)
        await sql.execute(
            "INSERT INTO follows (follower_id, followee_id) SELECT f, $2 FROM unnest($1::bigint[]) f",
            followers,
            celebrity,
        )
        await sql.execute("UPDATE users SET following_count = 1 WHERE id = ANY ($1)", followers)
        await sql.executemany(
            "INSERT INTO follower_counts VALUES ($1, $2, $3)", [(celebrity, *part) for part in parts.items()]
        )
        return celebrity, followers

    return make


@pytest.fixture(scope="session")
def service(server: Postgres, dsn: str, valkey: Valkey) -> Iterator[str]:
    """The address of the service, run as `python -m graph_service`, with a limit of 50 followees."""
    port = free_ports(1)[0]
    environment = {
        **os.environ,
        "FEED_POSTGRES_DSN": dsn,
        "FEED_REDIS_URL": valkey.url,
        "FEED_GRPC_LISTEN": f"127.0.0.1:{port}",
        "FEED_FOLLOWING_LIMIT": "50",
        "FEED_OPERATOR_TOKEN": OPERATOR_TOKEN,
        "FEED_DRAIN_SECONDS": "0",
    }
    process = Child(
        "graph",
        [sys.executable, "-m", "graph_service"],
        guard=server.guard,
        log=server.guard.scratch / "graph.log",
        environment=environment,
        port=port,
    )
    process.wait_until(lambda: _serving(port), START_SECONDS)
    yield f"127.0.0.1:{port}"
    assert process.end(signal.SIGTERM, STOP_SECONDS) == 0


def _serving(port: int) -> bool:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as plain:
        health: Any = health_pb2_grpc.HealthStub(plain)
        try:
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=1)
        except grpc.RpcError:
            return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
async def accounts(service: str) -> "AsyncIterator[accounts_pb2_grpc.AccountServiceAsyncStub]":
    """A client of the accounts, which can send metadata; failures are those of gRPC."""
    async with grpc.aio.insecure_channel(service) as plain:
        yield accounts_pb2_grpc.AccountServiceStub(plain)


@pytest.fixture
def operator() -> Metadata:
    """The metadata of an operator's calls."""
    return (("authorization", f"Bearer {OPERATOR_TOKEN}"),)


@pytest.fixture
async def stub(service: str) -> "AsyncIterator[graph_pb2_grpc.GraphServiceAsyncStub]":
    """A client as other services are: failures are domain errors."""
    descriptor = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
    async with channel.connect(service, descriptor, "graph") as opened:
        yield graph_pb2_grpc.GraphServiceStub(opened)
