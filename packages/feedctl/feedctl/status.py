"""`feedctl status`: is every part of the mesh there, and how much is waiting."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
import grpc.aio
import httpx
from confluent_kafka.admin import AdminClient
from grpc_health.v1 import health_pb2
from grpc_health.v1 import health_pb2_grpc as _health_grpc
from redis import asyncio as redis

from feedctl.targets import Targets

SECONDS = 3.0
"""How long any part may take to answer."""

health_grpc = cast("Any", _health_grpc)  # published without types


@dataclass(frozen=True)
class Part:
    """One part of the mesh, as it answered."""

    name: str
    address: str
    ok: bool
    detail: str


async def status(targets: Targets) -> list[Part]:
    """Ask every part at once."""
    probes = [_probe("gateway", targets.gateway, _gateway)]
    probes += [_probe(name, target, _service) for name, target in targets.grpc.items()]
    probes += [_probe(f"postgres ({name})", dsn, _postgres) for name, dsn in targets.postgres.items()]
    if targets.redis:
        probes.append(_probe("redis", targets.redis, _redis))
    if targets.kafka:
        probes.append(_probe("kafka", targets.kafka, _kafka))
    return await asyncio.gather(*probes)


async def _probe(name: str, address: str, ask: Callable[[str], Awaitable[str]]) -> Part:
    shown = address.rsplit("@", 1)[-1]  # no password on a screen
    try:
        async with asyncio.timeout(SECONDS):
            return Part(name, shown, True, await ask(address))
    except TimeoutError:
        return Part(name, shown, False, f"no answer in {SECONDS:g} s")
    except grpc.aio.AioRpcError as error:
        return Part(name, shown, False, error.code().name)
    except Exception as error:
        return Part(name, shown, False, f"{type(error).__name__}: {error}".splitlines()[0])


async def _gateway(url: str) -> str:
    async with httpx.AsyncClient(base_url=url) as client:
        response = await client.get("/readyz")
        response.raise_for_status()
        return "ready"


async def _service(target: str) -> str:
    async with grpc.aio.insecure_channel(target) as channel:
        answer = await health_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    state = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    if state != "SERVING":
        raise RuntimeError(state)
    return state.lower()


async def _postgres(dsn: str) -> str:
    connection = await asyncpg.connect(dsn)
    try:
        waiting = await connection.fetchval("SELECT count(*) FROM outbox")
        return f"outbox: {waiting} events"
    finally:
        await connection.close()


async def _redis(url: str) -> str:
    async with cast("Any", redis.Redis).from_url(url) as client:
        keys = await client.dbsize()
        return f"{keys} keys"


async def _kafka(brokers: str) -> str:
    metadata = await asyncio.to_thread(AdminClient({"bootstrap.servers": brokers}).list_topics, timeout=SECONDS)
    topics = [name for name in metadata.topics if name.startswith("feed.")]
    return f"{len(metadata.brokers)} brokers, {len(topics)} feed topics"
