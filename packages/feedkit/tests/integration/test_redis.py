"""The client gives everybody their own answer, in one round trip for many commands, and tells when Redis is away."""

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from devmesh.backends.valkey import Valkey
from feedkit import redis, telemetry
from feedkit.errors import Unavailable
from feedkit.redis import RedisSettings, TracedRedis
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from redis.exceptions import ResponseError

pytestmark = pytest.mark.integration

OpenRedis = Callable[..., Awaitable[TracedRedis]]
RelayTo = Callable[[int], Awaitable[Any]]
SAMPLED = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


async def test_what_was_set_is_got_as_bytes(open_redis: OpenRedis) -> None:
    client = await open_redis()
    await client.execute_command("SET", "key", b"\x00\xff")
    assert await client.execute_command("GET", "key") == b"\x00\xff"
    assert await client.get("absent") is None


async def test_many_commands_are_answered_in_order(open_redis: OpenRedis) -> None:
    client = await open_redis()
    commands: list[tuple[Any, ...]] = [("SET", "a", 1), ("INCR", "a"), ("GET", "a"), ("GET", "absent")]
    assert await client.pipelined(commands) == [True, 2, b"2", None]


async def test_many_commands_are_one_round_trip(open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.execute_command("PING")
    before = relay.requests
    await client.pipelined([("ECHO", str(number)) for number in range(50)])
    assert relay.requests == before + 1


async def test_the_error_of_a_command_is_its_own(open_redis: OpenRedis) -> None:
    client = await open_redis()
    await client.execute_command("SET", "text", "no number")
    with pytest.raises(ResponseError):
        await client.execute_command("INCR", "text")
    with pytest.raises(ResponseError):
        await client.pipelined([("INCR", "text"), ("GET", "text")])
    assert await client.get("text") == b"no number"


# --- absences ---------------------------------------------------------------------------------------------------------


async def both_fail(client: TracedRedis) -> None:
    """A command and many fail as they should, and soon."""
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"^redis: cannot be reached$"):
        await client.execute_command("GET", "key")
    with pytest.raises(Unavailable, match=r"^redis: cannot be reached$"):
        await client.pipelined([("GET", "key")])
    assert time.monotonic() - began < 2


async def test_a_server_that_refuses_is_unavailable(open_redis: OpenRedis) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    await both_fail(await open_redis(redis_url=f"redis://127.0.0.1:{port}/0"))


async def test_a_server_that_never_answers_is_unavailable(open_redis: OpenRedis) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        await both_fail(await open_redis(redis_url=f"redis://{address}/0", redis_timeout_seconds=0.2))


async def test_a_server_that_stops_answering_is_unavailable(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0", redis_timeout_seconds=0.2)
    await client.execute_command("PING")
    relay.delay = 5
    await both_fail(client)


async def test_what_timed_out_is_not_run_again(open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0", redis_timeout_seconds=0.2)
    await client.execute_command("DEL", "counted")
    relay.delay = 0.5
    with pytest.raises(Unavailable):
        await client.execute_command("INCR", "counted")
    direct = await open_redis()
    assert await direct.get("counted") == b"1"


async def test_a_server_that_is_read_only_for_now_is_unavailable(open_redis: OpenRedis) -> None:
    with Valkey() as server:
        client = await open_redis(redis_url=server.url)
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(Unavailable):
            await client.execute_command("SET", "key", "value")


async def test_a_restart_costs_no_error_once_the_server_is_back() -> None:
    with Valkey() as server:
        async with redis.connect(RedisSettings.model_validate({"redis_url": server.url})) as client:
            await asyncio.gather(*(client.execute_command("PING") for _ in range(5)))
            await asyncio.to_thread(server.kill)
            with pytest.raises(Unavailable):
                await client.execute_command("PING")
            await asyncio.to_thread(server.start)
            for _ in range(5):
                assert await client.execute_command("PING")
                assert await client.pipelined([("ECHO", "a")]) == [b"a"]


# --- cancelled callers ------------------------------------------------------------------------------------------------


async def test_cancellations_never_give_anybody_anothers_answer(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    relay.delay = 0.01
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    chance = random.Random(17)
    answers = 0

    async def one(number: int) -> None:
        nonlocal answers
        assert await client.execute_command("ECHO", str(number)) == str(number).encode()
        answers += 1

    async def many(number: int) -> None:
        nonlocal answers
        names = [f"{number}-{part}" for part in range(3)]
        assert await client.pipelined([("ECHO", name) for name in names]) == [name.encode() for name in names]
        answers += 1

    async def impatient(number: int) -> None:
        task = asyncio.create_task(chance.choice([one, many])(number))
        if chance.random() < 0.3:
            await asyncio.sleep(chance.random() * 0.03)
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return

    for start in range(0, 1000, 20):
        await asyncio.gather(*(impatient(number) for number in range(start, start + 20)))
    assert answers > 500


# --- traces -----------------------------------------------------------------------------------------------------------


async def test_each_round_trip_of_a_recorded_request_is_a_span(
    open_redis: OpenRedis, spans: InMemorySpanExporter
) -> None:
    client = await open_redis()
    with telemetry.server_span("request", telemetry.extract(SAMPLED), {}) as request:
        await client.get("a secret")
        await client.pipelined([("GET", "a"), ("GET", "b")])
    one, many, _ = spans.get_finished_spans()
    assert one.parent == many.parent == request.get_span_context()
    assert (one.name, many.name) == ("redis GET", "redis PIPELINE")
    assert dict(one.attributes or {}) == {"db.system.name": "redis", "db.operation.name": "GET"}
    assert dict(many.attributes or {}) == {"db.system.name": "redis", "db.operation.batch.size": 2}


async def test_a_round_trip_that_failed_says_so(open_redis: OpenRedis, spans: InMemorySpanExporter) -> None:
    client = await open_redis(redis_url="redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable), telemetry.server_span("request", telemetry.extract(SAMPLED), {}):
        await client.get("a")
    assert spans.get_finished_spans()[0].status.status_code is StatusCode.ERROR


async def test_round_trips_of_a_request_that_is_not_recorded_make_no_spans(
    open_redis: OpenRedis, spans: InMemorySpanExporter
) -> None:
    client = await open_redis()
    await client.get("a")
    await client.pipelined([("GET", "a")])
    assert spans.get_finished_spans() == ()
