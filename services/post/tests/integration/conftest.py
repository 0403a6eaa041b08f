"""A real PostgreSQL and Redis for the session, a fresh database for each test, and the services as processes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from datetime import timedelta
from importlib.resources import files
from itertools import count
from typing import Any, TypeAlias

import asyncpg
import pytest
from devmesh.backends.postgres import Postgres
from devmesh.backends.valkey import Valkey
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed.events.v1 import events_pb2
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import channel, postgres, redis
from feedkit.invalidation import Invalidation
from feedkit.postgres import Database
from feedkit.redis import Redis
from post_service.audience import Audience
from post_service.authors import Authors, Standing
from post_service.cache_store import CacheStore
from post_service.config import PostSettings
from post_service.engagement import Engagements
from post_service.engagement_store import EngagementStore
from post_service.erasure import Erasure
from post_service.erasure_store import ErasureStore
from post_service.impression_store import ImpressionStore
from post_service.impressions import Impressions
from post_service.posts import Posts
from post_service.store import PostStore
from post_service.worker_lease import Ids, Terms
from post_service.worker_store import WorkerStore

TERMS = Terms(lease_ms=15_000, max_skew_ms=5_000, max_backward_ms=100)
Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
OpenDatabase = Callable[..., Awaitable[Database]]
Told = Callable[[], Awaitable[list[tuple[str, int, str, int, int]]]]
_numbers = count()


def settings_for(dsn: str, redis_url: str = "redis://127.0.0.1:1", **more: Any) -> PostSettings:
    needed = {"postgres_dsn": dsn, "redis_url": redis_url, "graph_target": "127.0.0.1:1"}
    return PostSettings.model_validate({**needed, "postgres_acquire_seconds": 30.0, **more})


@pytest.fixture(scope="session")
def server() -> Generator[Postgres]:
    with Postgres(databases=["post"]) as server:
        asyncio.run(postgres.migrate(settings_for(server.dsn("post")), files("post_service") / "migrations"))
        yield server


@pytest.fixture
async def dsn(server: Postgres) -> str:
    """A database of the test's own, just migrated."""
    name = f"post_{next(_numbers)}"
    connection = await asyncpg.connect(server.dsn("postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE post")
    await connection.close()
    return server.dsn(name)


@pytest.fixture
async def open_database(dsn: str) -> AsyncGenerator[OpenDatabase]:
    """Opens pools with settings of the test's own."""
    async with AsyncExitStack() as pools:

        async def opened(**settings: Any) -> Database:
            return await pools.enter_async_context(postgres.database(settings_for(dsn, **settings)))

        yield opened


@pytest.fixture
async def database(open_database: OpenDatabase) -> Database:
    return await open_database()


@pytest.fixture
async def sql(dsn: str) -> AsyncGenerator[Sql]:
    """A connection beside the service's own."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
def store(database: Database) -> PostStore:
    return PostStore(database, key_lifetime=timedelta(hours=24), key_wait_seconds=4.0)


@pytest.fixture
async def ids(database: Database) -> Ids:
    ids = Ids(WorkerStore(database), TERMS)
    assert await ids.renew()
    return ids


@pytest.fixture(scope="session")
def valkey() -> Generator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
async def redis_client(dsn: str, valkey: Valkey) -> AsyncGenerator[Redis]:
    """An empty Redis: ids of authors come again from test to test."""
    async with redis.connect(settings_for(dsn, valkey.url)) as client:
        await client.run(("FLUSHALL",))
        yield client


@pytest.fixture
def standings() -> dict[int, Standing | None]:
    """How accounts stand that are not as any other; None: gone."""
    return {}


@pytest.fixture
def authors(standings: dict[int, Standing | None]) -> Authors:
    """Nothing is remembered, so that what a test makes of an account counts at once."""

    async def standing(user_id: int) -> Standing | None:
        return standings.get(user_id, Standing.ACTIVE)

    return Authors(standing, remember=100, seconds=0)


@pytest.fixture
def blocks() -> set[frozenset[int]]:
    """Pairs of users one of whom blocks the other."""
    return set()


@pytest.fixture
def audience(store: PostStore, standings: dict[int, Standing | None], blocks: set[frozenset[int]]) -> Audience:
    async def apart(user_id: int, other_id: int) -> bool | None:
        if standings.get(user_id, Standing.ACTIVE) is None:
            return None
        return frozenset({user_id, other_id}) in blocks

    async def standing(user_id: int) -> Standing | None:
        return standings.get(user_id, Standing.ACTIVE)

    return Audience(store.author_of, standing, apart)


@pytest.fixture
def caches(redis_client: Redis) -> CacheStore:
    return CacheStore(Invalidation(redis_client), own_length=50)


@pytest.fixture
def posts(store: PostStore, caches: CacheStore, ids: Ids, authors: Authors, audience: Audience) -> Posts:
    return Posts(store, caches, ids, authors, audience)


@pytest.fixture
def engagements(database: Database, authors: Authors, audience: Audience) -> Engagements:
    return Engagements(EngagementStore(database), authors, audience)


@pytest.fixture
def impressions(database: Database, authors: Authors) -> Impressions:
    return Impressions(ImpressionStore(database), authors)


@pytest.fixture
def erasure(database: Database, caches: CacheStore, authors: Authors) -> Erasure:
    """Whose erasure has begun is at once remembered by nobody."""
    return Erasure(ErasureStore(database, remembered=timedelta(0)), caches, authors)


@pytest.fixture
def told(sql: Sql) -> Told:
    """Tells what was told of single deeds, in order: the key of each event, who did what, and with which post of whom."""

    async def told() -> list[tuple[str, int, str, int, int]]:
        rows = await sql.fetch(
            "SELECT key, payload FROM outbox WHERE topic = 'feed.engagement.events.v1'"
            " AND type = 'feed.events.v1.EngagementEvent' ORDER BY id"
        )
        events = [(row["key"], events_pb2.EngagementEvent.FromString(row["payload"])) for row in rows]
        return [(key, event.actor_id, _kind(event), event.post_id, event.author_id) for key, event in events]

    return told


def _kind(event: events_pb2.EngagementEvent) -> str:
    return events_pb2.EngagementEventKind.Name(event.kind).removeprefix("ENGAGEMENT_EVENT_KIND_")


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """This service and graph, which it needs. Whoever stops one of them starts it again."""
    needed = [process for process in PROCESSES if process.name in ("post", "graph")]
    settings = {"FEED_DRAIN_SECONDS": "0", "FEED_RETENTION_SECONDS": "0.2"}
    with Mesh(settings, directory=tmp_path_factory.mktemp("mesh"), processes=needed) as mesh:
        yield mesh


@pytest.fixture
async def post(mesh: Mesh) -> "AsyncGenerator[post_pb2_grpc.PostServiceAsyncStub]":
    """A client as other services are: failures are domain errors."""
    service = post_pb2.DESCRIPTOR.services_by_name["PostService"]
    async with channel.connect(mesh.addresses.grpc["post"], service, "post") as opened:
        yield post_pb2_grpc.PostServiceStub(opened)


@pytest.fixture
async def author_id(mesh: Mesh) -> int:
    """Somebody who exists."""
    service = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
    async with channel.connect(mesh.addresses.grpc["graph"], service, "graph") as opened:
        graph: graph_pb2_grpc.GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(opened)
        return (await graph.CreateUser(graph_pb2.CreateUserRequest(name="somebody"))).user.id
