"""`feedctl status`: is every part of the mesh there, how much is waiting, and how fan-out is doing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeVar, cast

import asyncpg
import grpc.aio
import httpx
from confluent_kafka.admin import AdminClient
from feed.fanout.v1 import fanout_pb2
from feed.fanout.v1 import fanout_pb2_grpc as _fanout_grpc
from feed.outbox.v1 import outbox_pb2
from feed.outbox.v1 import outbox_pb2_grpc as _outbox_grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1 import health_pb2_grpc as _health_grpc

from feedctl.redis_keys import keys_in
from feedctl.settled import to_do
from feedctl.targets import Targets

if TYPE_CHECKING:
    from feed.fanout.v1.fanout_pb2_grpc import FanoutServiceAsyncStub
    from feed.outbox.v1.outbox_pb2_grpc import OutboxServiceAsyncStub

SECONDS = 3.0
"""How long any part may take to answer."""

# Published without types, or with too few.
health_grpc = cast("Any", _health_grpc)
fanout_grpc = cast("Any", _fanout_grpc)
outbox_grpc = cast("Any", _outbox_grpc)

Answer = TypeVar("Answer")


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
    probes += [_probe(name, target, _SERVICES.get(name, _service)) for name, target in targets.grpc.items()]
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
        return await _serving(channel)


async def _serving(channel: grpc.aio.Channel) -> str:
    answer = await health_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    state = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    if state != "SERVING":
        raise RuntimeError(state)
    return state.lower()


async def _writer(target: str) -> str:
    """A service with an outbox."""
    async with grpc.aio.insecure_channel(target) as channel:
        serving = await _serving(channel)
        stub: OutboxServiceAsyncStub = outbox_grpc.OutboxServiceStub(channel)
        backlog = stub.GetBacklog(outbox_pb2.GetBacklogRequest(), timeout=SECONDS / 2)
        return f"{serving}\noutbox: {await _told(backlog, in_outbox)}"


async def _fanout(target: str) -> str:
    async with grpc.aio.insecure_channel(target) as channel:
        serving = await _serving(channel)
        stub: FanoutServiceAsyncStub = fanout_grpc.FanoutServiceStub(channel)
        status = stub.GetStatus(fanout_pb2.GetStatusRequest(), timeout=SECONDS / 2)
        settled = stub.GetSettled(fanout_pb2.GetSettledRequest(), timeout=SECONDS / 2)
        told = await asyncio.gather(_told(status, doing), _told(settled, lambda said: to_do(said) or "all has settled"))
    return "\n".join([serving, *told])


async def _told(call: Awaitable[Answer], in_words: Callable[[Answer], str]) -> str:
    """What a service that is there said; it may depend on another that is not."""
    try:
        return in_words(await call)
    except grpc.aio.AioRpcError as error:
        return f"not known ({error.code().name})"


def waiting(events: int, oldest_ms: int) -> str:
    """How many events wait, and how long the oldest of them has."""
    if not events:
        return "none"
    return f"{events} events, the oldest for {oldest_ms / 1000:.1f} s"


def in_outbox(backlog: outbox_pb2.GetBacklogResponse) -> str:
    """What waits in an outbox, and what was set aside."""
    waits = waiting(backlog.rows, backlog.oldest_age_ms)
    return f"{waits}; {backlog.set_aside} set aside (feedctl outbox list)" if backlog.set_aside else waits


_CAUSES = {
    fanout_pb2.THRESHOLD_CAUSE_CONFIGURED: "as configured",
    fanout_pb2.THRESHOLD_CAUSE_LAG: "because lag has passed its limit",
    fanout_pb2.THRESHOLD_CAUSE_RECOVERING: "on its way back because lag is gone",
}


def doing(status: fanout_pb2.GetStatusResponse) -> str:
    """How fan-out is doing: its lag, engagement's, and the threshold with its reason, since when, and who moves it."""
    now, configured = status.celebrity_threshold, status.configured_celebrity_threshold
    why = _CAUSES.get(status.threshold_cause, "for a reason that is not told")
    instead = f" instead of {configured}" if now != configured else ""
    return (
        f"lag: {waiting(status.lag_events, status.lag_ms)}\n"
        f"engagement: {status.engagement_lag_events or 'no'} events behind\n"
        f"authors are pulled from {now} followers{instead}, {why}\n"
        f"since {status.threshold_since.ToDatetime(UTC).isoformat(' ', 'seconds')}\n"
        f"led by {status.threshold_leader or 'nobody'}"
    )


_SERVICES = {"post": _writer, "graph": _writer, "fanout": _fanout}
"""Those that tell more than their health."""


async def _postgres(dsn: str) -> str:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval("SELECT pg_size_pretty(pg_database_size(current_database()))")
    finally:
        await connection.close()


async def _redis(url: str) -> str:
    async with keys_in(url) as in_redis:
        return f"{await in_redis.count()} keys"


async def _kafka(brokers: str) -> str:
    metadata = await asyncio.to_thread(AdminClient({"bootstrap.servers": brokers}).list_topics, timeout=SECONDS)
    topics = [name for name in metadata.topics if name.startswith("feed.")]
    return f"{len(metadata.brokers)} brokers, {len(topics)} feed topics"
