"""The client gives everybody their own answers, in one round trip for many commands, and tells when Redis is away."""

import asyncio
import logging
import random
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from devmesh.backends.valkey import Valkey
from feedkit import deadline, redis, telemetry
from feedkit.errors import DeadlineExceeded, Unavailable
from feedkit.redis import Command, Redis, RedisSettings, Script
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from redis.exceptions import ResponseError

pytestmark = pytest.mark.integration

OpenRedis = Callable[..., Awaitable[Redis]]
"""Opens a client of one server (`open_redis`), or of whichever store it is (`open_store`)."""
RelayTo = Callable[[int], Awaitable[Any]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
SAMPLED = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}

ADD_ONE = Script("return redis.call('INCR', KEYS[1])")
READ = Script("return redis.call('GET', KEYS[1])")


@asynccontextmanager
async def client_of(url: str, **settings: Any) -> AsyncGenerator[Redis]:
    """A client with any settings."""
    async with redis.connect(RedisSettings.model_validate({"redis_url": url, **settings})) as client:
        yield client


async def until_it_answers(client: Redis) -> None:
    """Wait until the server is there again, as a caller sees it."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await client.ping()
            except Unavailable:
                await asyncio.sleep(0.01)


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_answers_come_in_order_and_as_bytes(open_store: OpenRedis) -> None:
    client = await open_store()
    answers = await client.run(("SET", "a", 1), ("INCR", "a"), ("GET", "a"), ("GET", "absent"), ("MGET", "a", "absent"))
    assert answers == [b"OK", 2, b"2", None, [b"2", None]]
    assert await client.run(("SET", "a", b"\x00\xff\r\n"), ("GET", "a")) == [b"OK", b"\x00\xff\r\n"]
    assert await client.run() == []


async def test_long_values_are_got_whole(open_store: OpenRedis) -> None:
    client = await open_store()
    values = [random.Random(size).randbytes(size) for size in (0, 1, 16_000, 1_000_000)]
    assert await client.run(*(("ECHO", value) for value in values)) == values


async def test_many_commands_are_one_round_trip(open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.ping()
    before = relay.requests
    await client.run(*(("ECHO", str(number)) for number in range(50)))
    assert relay.requests == before + 1


async def test_what_callers_want_at_the_same_moment_is_one_write_on_one_connection(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.ping()
    before = relay.requests
    answers = await asyncio.gather(*(client.run(("ECHO", str(number)), ("PING",)) for number in range(50)))
    assert answers == [[str(number).encode(), b"PONG"] for number in range(50)]
    assert (relay.requests, relay.connections) == (before + 1, 1)


async def test_the_error_of_a_command_is_its_own(open_store: OpenRedis) -> None:
    client = await open_store()
    await client.run(("SET", "text", "no number"))
    wrong, right = await asyncio.gather(
        client.run(("INCR", "text"), ("GET", "text")), client.run(("GET", "text")), return_exceptions=True
    )
    assert isinstance(wrong, ResponseError)
    assert right == [b"no number"]


async def test_a_command_that_cannot_be_written_concerns_nobody_else(open_store: OpenRedis) -> None:
    client = await open_store()
    nothing: Any = None
    wrong, right = await asyncio.gather(
        client.run(("ECHO", nothing)), client.run(("ECHO", "right")), return_exceptions=True
    )
    assert isinstance(wrong, TypeError)
    assert right == [b"right"]


# --- scripts ----------------------------------------------------------------------------------------------------------


async def test_commands_run_in_order_though_the_server_has_forgotten_the_scripts_among_them(
    open_store: OpenRedis,
) -> None:
    client = await open_store()
    await client.run(READ("text"), ("SCRIPT", "FLUSH"))
    answers = await client.run(("SET", "text", "first"), READ("text"), ("SET", "text", "second"), READ("text"))
    assert answers == [b"OK", b"first", b"OK", b"second"]


async def test_a_script_is_one_round_trip_once_the_server_knows_it(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.run(ADD_ONE("scripted"))
    before = relay.requests
    await client.run(ADD_ONE("scripted"), ADD_ONE("scripted"))
    assert relay.requests == before + 1


# --- not now ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist on disk.",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "NOREPLICAS Not enough good replicas to write.",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "NOPERM User default has no permissions to run the 'evalsha' command",
        # As version 6 tells of an error within a script.
        "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed.",
    ],
)
async def test_what_the_server_cannot_do_now_is_unavailable(open_store: OpenRedis, error: str) -> None:
    client = await open_store()
    with pytest.raises(Unavailable, match=r"^redis: "):
        await client.run(("EVAL", "return redis.error_reply(ARGV[1])", 0, error))
    await client.ping()


async def test_a_replica_and_a_full_server_take_no_writes_but_answer_reads() -> None:
    with Valkey() as server:
        async with client_of(server.url) as client:
            await client.run(("SET", "key", "value"), ("CONFIG", "SET", "maxmemory", 1))
            for write in (("SET", "key", "other"), ADD_ONE("counted")):
                with pytest.raises(Unavailable, match=r"^redis: is full$"):
                    await client.run(write)
            await client.run(("CONFIG", "SET", "maxmemory", 0), ("REPLICAOF", "127.0.0.1", 1))
            for write in (("SET", "key", "other"), ADD_ONE("counted")):
                with pytest.raises(Unavailable, match=r"^redis: takes no writes"):
                    await client.run(write)
            assert await client.run(("GET", "key")) == [b"value"]


@pytest.mark.parametrize("error", ["WRONGTYPE wrong kind", "ERR wrong", "NOSCRIPT unknown"])
async def test_any_other_error_is_a_fault(open_store: OpenRedis, error: str) -> None:
    client = await open_store()
    with pytest.raises(ResponseError):
        await client.run(("EVAL", "return redis.error_reply(ARGV[1])", 0, error))


# --- absences ---------------------------------------------------------------------------------------------------------


async def fails_within(client: Redis, seconds: float) -> None:
    """Calls are told that Redis is away, and soon."""
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"^redis: "):
        await client.run(("GET", "key"))
    assert time.monotonic() - began < seconds


async def test_a_server_that_refuses_is_unavailable_at_once(open_redis: OpenRedis) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = await open_redis(redis_url=f"redis://127.0.0.1:{port}/0", redis_timeout_seconds=5)
    for _ in range(3):
        await fails_within(client, 1)


async def test_a_server_that_never_answers_costs_one_caller_the_timeout(open_redis: OpenRedis) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = await open_redis(redis_url=f"redis://{address}/0", redis_timeout_seconds=0.4)
        await fails_within(client, 2)
        for _ in range(100):
            await fails_within(client, 0.2)


async def test_when_a_server_stops_answering_all_that_wait_fail_at_once_and_later_calls_immediately(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0", redis_timeout_seconds=1)
    await client.ping()
    relay.delay = 60
    first = asyncio.create_task(client.ping())
    await asyncio.sleep(0.5)
    second = asyncio.create_task(client.ping())
    began = time.monotonic()
    for waiting in (first, second):
        with pytest.raises(Unavailable):
            await waiting
    assert time.monotonic() - began < 0.9
    for _ in range(100):
        await fails_within(client, 0.2)
    relay.delay = 0
    await relay.cut()
    await until_it_answers(client)


async def test_what_timed_out_is_not_run_again(open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0", redis_timeout_seconds=0.2)
    await client.run(("DEL", "counted"))
    relay.delay = 0.5
    with pytest.raises(Unavailable):
        await client.run(("INCR", "counted"))
    relay.delay = 0
    await until_it_answers(client)
    assert await client.run(("GET", "counted")) == [b"1"]


async def test_the_deadline_of_a_request_may_be_shorter_and_ends_nothing_but_its_own_call(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0", redis_timeout_seconds=5)
    await client.ping()
    relay.delay = 0.3
    patient = asyncio.create_task(client.run(("ECHO", "patient")))
    began = time.monotonic()
    with deadline.within(0.1), pytest.raises(Unavailable):
        await client.run(("ECHO", "hurried"))
    assert time.monotonic() - began < 0.25
    assert await patient == [b"patient"]
    assert await client.run(("ECHO", "next")) == [b"next"]
    assert relay.connections == 1


async def test_an_answer_that_came_while_this_process_was_held_up_is_in_time(open_store: OpenRedis) -> None:
    client = await open_store(redis_timeout_seconds=0.2)
    await client.ping()
    for _ in range(3):
        answer = asyncio.create_task(client.run(("ECHO", "in time")))
        for _ in range(3):
            await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - this is what holds it up
        assert await answer == [b"in time"]


async def test_nothing_is_asked_once_the_deadline_has_passed(open_store: OpenRedis) -> None:
    client = await open_store()
    with deadline.within(0.0), pytest.raises(DeadlineExceeded):
        await client.ping()


async def test_a_restart_is_noticed_and_got_over() -> None:
    with Valkey() as server:
        async with client_of(server.url) as client:
            await asyncio.gather(*(client.ping() for _ in range(5)))
            await asyncio.to_thread(server.kill)
            with pytest.raises(Unavailable):
                await client.ping()
            await asyncio.to_thread(server.start)
            await until_it_answers(client)
            assert await client.run(ADD_ONE("counted")) == [1]


async def test_who_insists_reaches_a_server_that_is_back_before_others_know() -> None:
    with Valkey() as server:
        async with client_of(server.url) as client:
            await client.ping()
            await asyncio.to_thread(server.kill)
            for _ in range(20):
                with pytest.raises(Unavailable):
                    await client.insist(("PING",))
                await fails_within(client, 0.2)
            # By now the attempts in the background are half a second apart.
            await asyncio.to_thread(server.start)
            assert await client.insist(("ECHO", "back")) == [b"back"]


async def test_absence_and_return_are_one_line_each_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Valkey() as server:
        async with client_of(server.url) as client:
            await client.ping()
            await asyncio.to_thread(server.kill)
            for _ in range(5):
                await fails_within(client, 1)
            await asyncio.to_thread(server.start)
            await until_it_answers(client)
    said = [record.message for record in caplog.records if record.name.startswith("feedkit.redis")]
    assert [message.partition(":")[0] for message in said] == ["Redis is away", "Redis is back"]


async def test_a_wrong_password_is_unavailable() -> None:
    with Valkey() as server:
        async with client_of(server.url) as client:
            await client.run(("CONFIG", "SET", "requirepass", "right"))
        address = server.url.removeprefix("redis://")
        async with client_of(f"redis://:wrong@{address}") as client:
            await fails_within(client, 1)
        async with client_of(f"redis://:right@{address}") as client:
            await client.ping()


# --- connections that the server closes -------------------------------------------------------------------------------


async def test_a_connection_closed_while_idle_costs_no_error(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.ping()
    await relay.cut()
    assert await client.run(("ECHO", "still")) == [b"still"]


async def test_what_was_written_to_an_idle_connection_as_it_closed_is_sent_once_more(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.ping()
    relay.hang_up_on_requests, relay.delay = 1, 0.1
    one = asyncio.create_task(client.run(("ECHO", "one")))
    await asyncio.sleep(0.05)
    answers = await asyncio.gather(one, client.run(("ECHO", "two"), ("ECHO", "three")))
    assert answers == [[b"one"], [b"two", b"three"]]
    assert relay.connections == 2


async def test_but_not_a_third_time(open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.ping()
    relay.hang_up_on_requests = 10
    with pytest.raises(Unavailable):
        await client.ping()


async def test_what_was_under_way_on_a_busy_connection_is_not_sent_again(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo
) -> None:
    relay = await relay_to(valkey.port)
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    await client.run(("DEL", "counted"))
    relay.delay = 0.1
    first = asyncio.create_task(client.run(("ECHO", "first")))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(client.run(("INCR", "counted")))
    relay.hang_up_after_answer = True
    assert await first == [b"first"]
    with pytest.raises(Unavailable):
        await second
    relay.delay = 0
    assert await client.run(("GET", "counted")) == [b"1"]


# --- cancelled callers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [False, True])
async def test_cancellations_timeouts_and_cuts_never_give_anybody_anothers_answer(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo, cuts: bool
) -> None:
    relay = await relay_to(valkey.port)
    relay.delay = 0.01
    client = await open_redis(redis_url=f"redis://{relay.address}/0")
    chance = random.Random(17)
    answered = 0

    async def ask(number: int) -> None:
        nonlocal answered
        names = [f"{number}-{part}" for part in range(chance.randint(1, 4))]
        commands: list[Command] = [("ECHO", name) for name in names]
        try:
            with deadline.within(chance.choice([0.01, 5.0])):
                assert await client.run(*commands) == [name.encode() for name in names]
        except Unavailable:
            return
        answered += 1

    async def impatient(number: int) -> None:
        task = asyncio.create_task(ask(number))
        await asyncio.sleep(chance.random() * 0.03)
        if chance.random() < 0.3:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    for start in range(0, 1000, 20):
        if cuts and chance.random() < 0.3:
            await relay.cut()
        await asyncio.gather(*(impatient(number) for number in range(start, start + 20)))
    assert answered > 200
    await until_it_answers(client)
    assert await client.run(("ECHO", "after all")) == [b"after all"]


# --- traces -----------------------------------------------------------------------------------------------------------


async def test_each_round_trip_of_a_recorded_request_is_a_span(
    open_store: OpenRedis, spans: InMemorySpanExporter
) -> None:
    client = await open_store()
    with telemetry.server_span("request", telemetry.extract(SAMPLED), {}) as request:
        await client.run(("GET", "a secret"))
        await client.run(("GET", "a"), ("GET", "b"))
    one, many, _ = spans.get_finished_spans()
    assert one.parent == many.parent == request.get_span_context()
    assert (one.name, many.name) == ("redis", "redis")
    assert dict(one.attributes or {}) == {
        "db.system.name": "redis",
        "db.operation.batch.size": 1,
        "db.operation.name": "GET",
    }
    assert dict(many.attributes or {}) == {"db.system.name": "redis", "db.operation.batch.size": 2}


async def test_a_round_trip_that_failed_says_so(open_redis: OpenRedis, spans: InMemorySpanExporter) -> None:
    client = await open_redis(redis_url="redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable), telemetry.server_span("request", telemetry.extract(SAMPLED), {}):
        await client.ping()
    assert spans.get_finished_spans()[0].status.status_code is StatusCode.ERROR


async def test_round_trips_of_a_request_that_is_not_recorded_make_no_spans(
    open_store: OpenRedis, spans: InMemorySpanExporter
) -> None:
    client = await open_store()
    await client.ping()
    assert spans.get_finished_spans() == ()


# --- subscriptions ----------------------------------------------------------------------------------------------------


class Listener:
    """Hears what is published on `news`."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.gaps = 0

    def gap(self) -> None:
        """Something may have been missed."""
        self.gaps += 1


async def test_published_messages_are_heard_in_order_once_the_first_gap_is_told(
    open_store: OpenRedis, eventually: Eventually
) -> None:
    client, listener = await open_store(), Listener()
    async with client.subscribed("news", listener.heard.append, listener.gap):
        await eventually(lambda: listener.gaps == 1)
        await client.run(("PUBLISH", "news", b"\x00\xff"), ("PUBLISH", "other", "unheard"), ("PUBLISH", "news", "two"))
        await eventually(lambda: len(listener.heard) == 2)
    assert listener.heard == [b"\x00\xff", b"two"]
    assert await client.run(("PUBLISH", "news", "after the block")) == [0]
    assert listener.gaps == 1


async def test_an_interruption_is_told_once_messages_are_heard_again(
    open_store: OpenRedis, eventually: Eventually
) -> None:
    client, listener = await open_store(), Listener()
    async with client.subscribed("news", listener.heard.append, listener.gap):
        await eventually(lambda: listener.gaps == 1)
        await client.run_everywhere(("CLIENT", "KILL", "TYPE", "pubsub"))
        await eventually(lambda: listener.gaps == 2)
        await client.run(("PUBLISH", "news", "heard"))
        await eventually(lambda: listener.heard == [b"heard"])


async def test_what_a_listener_raises_is_logged_and_listening_goes_on(
    open_store: OpenRedis, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    client, listener = await open_store(), Listener()

    def particular(message: bytes) -> None:
        if message == b"bad":
            raise ValueError("a bad message")
        listener.heard.append(message)

    async with client.subscribed("news", particular, listener.gap):
        await eventually(lambda: listener.gaps == 1)
        await client.run(("PUBLISH", "news", "bad"))
        await eventually(lambda: listener.gaps == 2)
        await client.run(("PUBLISH", "news", "good"))
        await eventually(lambda: listener.heard == [b"good"])
    assert "a bad message" in caplog.text


async def test_a_server_that_comes_late_or_again_is_subscribed_to(eventually: Eventually) -> None:
    with Valkey() as server:
        await asyncio.to_thread(server.kill)
        listener = Listener()
        async with client_of(server.url) as client, client.subscribed("news", listener.heard.append, listener.gap):
            for starts in (1, 2):
                await asyncio.to_thread(server.start)
                await eventually(lambda starts=starts: listener.gaps == starts)
                await until_it_answers(client)
                await client.run(("PUBLISH", "news", str(starts)))
                await eventually(lambda starts=starts: len(listener.heard) == starts)
                await asyncio.to_thread(server.kill)


async def test_a_subscription_that_has_gone_silent_is_made_anew(
    open_redis: OpenRedis, valkey: Valkey, relay_to: RelayTo, eventually: Eventually
) -> None:
    relay = await relay_to(valkey.port)
    client, listener = await open_redis(redis_url=f"redis://{relay.address}/0"), Listener()
    async with client.subscribed("news", listener.heard.append, listener.gap):
        await eventually(lambda: listener.gaps == 1)
        connections, relay.delay = relay.connections, 60
        await eventually(lambda: relay.connections > connections)
        relay.delay = 0
        await eventually(lambda: listener.gaps == 2)


# --- the settings of the server ---------------------------------------------------------------------------------------


async def warnings_of(client: Redis, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the report warns of."""
    caplog.clear()
    caplog.set_level(logging.INFO)
    await redis.report_settings(client)
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_good_server_is_passed_in_silence(open_store: OpenRedis, caplog: pytest.LogCaptureFixture) -> None:
    assert await warnings_of(await open_store(), caplog) == []
    assert caplog.messages == []


async def test_what_would_hurt_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with Valkey() as server:
        async with client_of(server.url) as client:
            await client.run(("CONFIG", "SET", "maxmemory", "1gb"))
            [warning] = await warnings_of(client, caplog)
            assert "noeviction" in warning
            for policy in ("allkeys-random", "volatile-random", "volatile-ttl"):
                await client.run(("CONFIG", "SET", "maxmemory-policy", policy))
                [warning] = await warnings_of(client, caplog)
                assert policy in warning
            for policy in ("allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu"):
                await client.run(("CONFIG", "SET", "maxmemory-policy", policy))
                assert await warnings_of(client, caplog) == []


async def test_a_server_that_is_away_or_tells_nothing_is_only_noted(caplog: pytest.LogCaptureFixture) -> None:
    with Valkey() as server:
        async with client_of(server.url) as client:
            await client.run(("ACL", "SETUSER", "guest", "on", ">guest", "+@all", "-info", "~*"))
        address = server.url.removeprefix("redis://")
        async with client_of(f"redis://guest:guest@{address}") as guest:
            assert await warnings_of(guest, caplog) == []
            assert caplog.messages == ["the settings of Redis were not checked: redis: does not permit this"]
    async with client_of("redis://127.0.0.1:1/0") as nobody:
        await redis.report_settings(nobody)
        assert caplog.messages[-1].startswith("the settings of Redis were not checked")


@pytest.mark.parametrize(("version", "old"), [("6.0.16", True), ("5.0.7", True), ("6.2.0", False), ("10.0.1", False)])
def test_an_old_server_is_warned_of(version: str, old: bool) -> None:
    problems = redis.problems_of(f"# Server\r\nredis_version:{version}\r\nmaxmemory:0\r\n".encode())
    assert [version in problem for problem in problems] == [True] * old
