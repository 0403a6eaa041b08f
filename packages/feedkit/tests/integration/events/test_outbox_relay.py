"""What was committed is published, once it is and in the order of its key, whatever relays, broker and database do."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest
from devmesh.backends.postgres import Postgres
from feed.events.v1 import events_pb2
from feed.outbox.v1 import outbox_pb2
from feedkit import kafka, outbox, outbox_relay, postgres, telemetry
from feedkit.config import ConfigurationError
from feedkit.errors import InvalidArgument
from feedkit.outbox import Backlog, OutboxServicer
from feedkit.outbox_leases import SHARDS
from feedkit.outbox_relay import RelaySettings
from feedkit.postgres import Database, PostgresSettings
from feedkit.server import Process
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

pytestmark = pytest.mark.integration

SERVICES = Path(__file__).parents[5] / "services"
MIGRATIONS = SERVICES / "post" / "post_service" / "migrations"
LAYOUTS = ("outbox_shards", "outbox_set_aside")
PROGRAM = Path(__file__).parents[2] / "programs" / "relay.py"
LEASE_SECONDS = 1.0

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Received = Callable[[str, int], Awaitable[list[Any]]]
RunRelay = Callable[[], subprocess.Popen[bytes]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture(scope="module")
def own_server() -> Iterator[Postgres]:
    """A server that tests may kill and start again."""
    with Postgres(databases=["outbox"]) as server:
        settings = PostgresSettings.model_validate({"postgres_dsn": server.dsn("outbox")})
        asyncio.run(postgres.migrate(settings, MIGRATIONS))
        yield server


class Outbox:
    """The outbox of a service, and what tests ask of it."""

    def __init__(self, database: Database, sql: Sql) -> None:
        self.database = database
        """The pool of whoever writes."""
        self.sql = sql

    async def write(self, *events: tuple[int, events_pb2.PostEvent]) -> None:
        """Commit events."""
        async with self.database.transaction() as connection:
            await outbox.append(connection, kafka.POST_EVENTS, events)

    async def until_empty(self, but: int = 0) -> None:
        """Wait until no row is left but some; fail after 20 s."""
        deadline = time.monotonic() + 20
        while (left := await self.sql.fetchval("SELECT count(*) FROM outbox")) != but:
            assert time.monotonic() < deadline, f"{left} rows are left"
            await asyncio.sleep(0.02)

    async def until_shares_are(self, *shares: int) -> None:
        """Wait until relays hold so many shards, the largest share first; fail after 10 s."""
        query = "SELECT count(*) FROM outbox_leases WHERE expires_at > now() GROUP BY holder ORDER BY count(*) DESC"
        deadline = time.monotonic() + 10
        while (found := tuple(row[0] for row in await self.sql.fetch(query))) != shares:
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.02)


@pytest.fixture
async def waiting(own_server: Postgres) -> AsyncIterator[Outbox]:
    """An outbox that is empty and has no relay."""
    dsn = own_server.dsn("outbox")
    sql = await asyncpg.connect(dsn)
    await sql.execute("TRUNCATE outbox, outbox_relays, outbox_set_aside")
    await sql.execute("UPDATE outbox_leases SET holder = NULL, expires_at = '-infinity'")
    settings = {"postgres_dsn": dsn, "postgres_pool_size": 40, "postgres_acquire_seconds": 20}
    async with postgres.database(PostgresSettings.model_validate(settings)) as database:
        yield Outbox(database, sql)
    sql.terminate()


class Relay:
    """A relay's process, but within this one."""

    def __init__(self, process: Process, settings: RelaySettings) -> None:
        self._process = process
        self.task = asyncio.create_task(outbox_relay.run(process, settings, MIGRATIONS))

    async def stop(self) -> float:
        """Stop it as SIGTERM does; how many seconds that took."""
        began = time.monotonic()
        self._process.stop()
        await self.task
        return time.monotonic() - began


StartRelay = Callable[..., Relay]


@pytest.fixture
async def start_relay(own_server: Postgres, broker: Any, waiting: Outbox) -> AsyncIterator[StartRelay]:
    """Start a relay with any settings."""
    async with AsyncExitStack() as resources:
        relays: list[Relay] = []

        def start(**settings: Any) -> Relay:
            defaults = {
                "postgres_dsn": own_server.dsn("outbox"),
                "kafka_brokers": broker.address,
                "grpc_listen": "127.0.0.1:0",
                "drain_seconds": 0,
                "outbox_lease_seconds": LEASE_SECONDS,
            }
            chosen = RelaySettings.model_validate({**defaults, **settings})
            relays.append(Relay(Process("relay", chosen, resources), chosen))
            return relays[-1]

        yield start
        for relay in relays:
            if not relay.task.done():
                await relay.stop()


@pytest.fixture
def run_relay(own_server: Postgres, broker: Any, waiting: Outbox) -> Iterator[RunRelay]:
    """Start a relay as a process, which is killed at the end at the latest."""
    processes: list[subprocess.Popen[bytes]] = []
    settings = {
        "FEED_POSTGRES_DSN": own_server.dsn("outbox"),
        "FEED_KAFKA_BROKERS": broker.address,
        "FEED_GRPC_LISTEN": "127.0.0.1:0",
        "FEED_DRAIN_SECONDS": "0",
        "FEED_OUTBOX_LEASE_SECONDS": str(LEASE_SECONDS),
    }

    def run() -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen([sys.executable, PROGRAM, MIGRATIONS], env={**os.environ, **settings}))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait()


def event(author_id: int, number: int) -> tuple[int, events_pb2.PostEvent]:
    return author_id, events_pb2.PostEvent(post_id=number, author_id=author_id, kind=events_pb2.POST_EVENT_KIND_CREATED)


def numbers(records: list[Any]) -> list[int]:
    return [events_pb2.PostEvent.FromString(record.value).post_id for record in records]


# --- one relay --------------------------------------------------------------------------------------------------------


async def test_what_is_committed_is_published_and_deleted(
    start_relay: StartRelay, waiting: Outbox, received: Received
) -> None:
    start_relay()
    await waiting.write(event(17, 1))
    [record] = await received(kafka.POST_EVENTS, 1)
    assert record.key == "17"
    assert record.value == event(17, 1)[1].SerializeToString()
    assert record.headers == {"type": "feed.events.v1.PostEvent", "schema-version": "1"}
    await waiting.until_empty()


async def test_a_row_that_becomes_visible_late_is_not_stepped_over(
    start_relay: StartRelay, waiting: Outbox, received: Received
) -> None:
    start_relay()
    async with waiting.database.transaction() as slow:
        await outbox.append(slow, kafka.POST_EVENTS, [event(1, 1)])
        await waiting.write(event(1, 2))
        await waiting.until_empty()
    assert numbers(await received(kafka.POST_EVENTS, 2)) == [2, 1]
    await waiting.until_empty()


async def test_slow_and_failing_writers_lose_and_repeat_nothing(
    start_relay: StartRelay, waiting: Outbox, received: Received
) -> None:
    start_relay(outbox_batch_size=20)
    chance = random.Random(12)
    committed: list[int] = []

    async def writer(author_id: int) -> None:
        for number in range(author_id * 1000, author_id * 1000 + 12):
            try:
                async with waiting.database.transaction() as connection:
                    await outbox.append(connection, kafka.POST_EVENTS, [event(author_id, number)])
                    await asyncio.sleep(chance.choice([0, 0, 0.01, 0.1]))
                    if chance.random() < 0.2:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
            committed.append(number)

    await asyncio.gather(*(writer(author_id) for author_id in range(1, 33)))
    await waiting.until_empty()
    arrived = numbers(await received(kafka.POST_EVENTS, len(committed)))
    assert sorted(arrived) == sorted(committed)
    assert await waiting.sql.fetchval("SELECT last_value FROM outbox_id_seq") >= 32 * 12 > len(committed)


async def test_events_wake_the_relay(start_relay: StartRelay, waiting: Outbox, received: Received) -> None:
    start_relay(outbox_poll_seconds=3600)
    await waiting.until_shares_are(SHARDS)
    # The first record also waits for the producer to get its number from the broker.
    await waiting.write(event(1, 1))
    await waiting.until_empty()
    for number in range(2, 12):
        began = time.monotonic()
        await waiting.write(*(event(author_id, number) for author_id in range(1, 30)))
        await waiting.until_empty()
        assert time.monotonic() - began < 1


async def test_a_lost_connection_for_notifications_is_made_anew(start_relay: StartRelay, waiting: Outbox) -> None:
    start_relay(outbox_poll_seconds=3600)
    await waiting.write(event(1, 1))
    await waiting.until_empty()
    # Its first statement is the last but for signs of life.
    ended = await waiting.sql.fetch(
        """SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query IN ('LISTEN "outbox"', 'SELECT 1')"""
    )
    assert ended
    for number in range(2, 5):
        await waiting.write(event(1, number))
        await waiting.until_empty()


async def test_without_notifications_the_outbox_is_looked_at_all_the_same(
    start_relay: StartRelay, waiting: Outbox
) -> None:
    await waiting.sql.execute("ALTER TABLE outbox DISABLE TRIGGER outbox_notify")
    try:
        start_relay(outbox_poll_seconds=0.05)
        await waiting.write(event(1, 1))
        await waiting.until_empty()
        await waiting.write(event(1, 2))
        await waiting.until_empty()
    finally:
        await waiting.sql.execute("ALTER TABLE outbox ENABLE TRIGGER outbox_notify")


async def test_a_trace_goes_through_the_outbox(
    start_relay: StartRelay, waiting: Outbox, received: Received, spans: InMemorySpanExporter
) -> None:
    with telemetry.server_span("request", telemetry.extract({}), {}) as request:
        await waiting.write(event(17, 1))
    start_relay()
    [record] = await received(kafka.POST_EVENTS, 1)
    [sent] = [span for span in spans.get_finished_spans() if span.name == "send feed.post.events.v1"]
    assert sent.parent and sent.context
    context = request.get_span_context()
    assert (sent.parent.trace_id, sent.parent.span_id) == (context.trace_id, context.span_id)
    assert f"{sent.context.trace_id:032x}-{sent.context.span_id:016x}" in record.headers["traceparent"]


@pytest.mark.parametrize("headers", ['{"traceparent": "garbage"}', '{"traceparent": ""}'])
async def test_a_malformed_trace_in_the_outbox_is_left_out(
    start_relay: StartRelay, waiting: Outbox, received: Received, headers: str
) -> None:
    await waiting.sql.execute(
        "INSERT INTO outbox (topic, key, type, payload, headers) VALUES ($1, '1', 'T', '', $2::jsonb)",
        kafka.POST_EVENTS,
        headers,
    )
    start_relay()
    [record] = await received(kafka.POST_EVENTS, 1)
    assert record.headers == {"type": "T", "schema-version": "1"}


# --- several relays ---------------------------------------------------------------------------------------------------


async def test_relays_share_the_shards_and_take_over_those_of_one_that_leaves(
    start_relay: StartRelay, waiting: Outbox
) -> None:
    first = start_relay()
    await waiting.until_shares_are(8)
    start_relay()
    await waiting.until_shares_are(4, 4)
    start_relay()
    await waiting.until_shares_are(3, 3, 2)
    await first.stop()
    await waiting.until_shares_are(4, 4)


async def test_a_key_keeps_its_order_while_relays_come_and_go(
    start_relay: StartRelay, waiting: Outbox, received: Received
) -> None:
    relays = [start_relay(outbox_batch_size=5), start_relay(outbox_batch_size=5)]
    written = asyncio.Event()

    async def author(author_id: int) -> None:
        for number in range(40):
            await waiting.write(event(author_id, number))
        written.set()

    async def change() -> None:
        while not written.is_set():
            await relays.pop(0).stop()
            relays.append(start_relay(outbox_batch_size=5))
            await asyncio.sleep(0.3)

    await asyncio.gather(change(), *(author(author_id) for author_id in range(1, 31)))
    await waiting.until_empty()
    arrived: dict[str, list[int]] = defaultdict(list)
    for record in await received(kafka.POST_EVENTS, 30 * 40):
        arrived[record.key] += numbers([record])
    assert arrived == {str(author_id): list(range(40)) for author_id in range(1, 31)}


async def test_a_relay_stops_with_a_shard_that_another_has_taken(
    start_relay: StartRelay, waiting: Outbox, received: Received, eventually: Eventually
) -> None:
    relay = start_relay()
    await waiting.write(event(1, 1))
    await waiting.until_empty()
    shard = await waiting.sql.fetchval("SELECT (hashtext('1') & 7)::smallint")
    taken = "UPDATE outbox_leases SET holder = gen_random_uuid(), expires_at = now() + '1 day' WHERE shard = $1"
    await waiting.sql.execute(taken, shard)
    await asyncio.sleep(LEASE_SECONDS)
    await waiting.write(event(1, 2))
    await waiting.write(*(event(author_id, 0) for author_id in range(2, 100)))
    await asyncio.sleep(0.3)
    assert await waiting.sql.fetchval("SELECT array_agg(DISTINCT shard) FROM outbox") == [shard]
    await relay.stop()
    assert await waiting.sql.fetchval("SELECT count(*) FROM outbox_leases WHERE expires_at > now()") == 1


# --- killed relays ----------------------------------------------------------------------------------------------------


async def test_the_shards_of_a_killed_relay_are_taken_over_within_seconds(
    run_relay: RunRelay, waiting: Outbox, received: Received
) -> None:
    killed = run_relay()
    await waiting.until_shares_are(SHARDS)
    run_relay()
    await waiting.until_shares_are(4, 4)
    killed.kill()
    await waiting.write(*(event(author_id, author_id) for author_id in range(1, 100)))
    began = time.monotonic()
    assert sorted(numbers(await received(kafka.POST_EVENTS, 99))) == list(range(1, 100))
    await waiting.until_empty()
    assert time.monotonic() - began < LEASE_SECONDS + 3


async def test_a_relay_killed_between_publishing_and_deleting_repeats_but_loses_nothing(
    run_relay: RunRelay, waiting: Outbox, received: Received
) -> None:
    await waiting.write(*(event(author_id, author_id) for author_id in range(1, 20)))
    async with waiting.sql.transaction():
        await waiting.sql.execute("LOCK TABLE outbox IN SHARE MODE")
        killed = run_relay()
        await received(kafka.POST_EVENTS, 19)
        killed.kill()
        # The server would go on with a delete that it has been sent.
        await waiting.sql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        )
    assert await waiting.sql.fetchval("SELECT count(*) FROM outbox") == 19
    run_relay()
    await waiting.until_empty()
    assert Counter(numbers(await received(kafka.POST_EVENTS, 38))) == dict.fromkeys(range(1, 20), 2)


async def test_relays_that_are_killed_again_and_again_lose_nothing_and_keep_the_order(
    run_relay: RunRelay, waiting: Outbox, received: Received
) -> None:
    async def authors() -> None:
        for number in range(60):
            await waiting.write(*(event(author_id, number) for author_id in range(1, 9)))
            await asyncio.sleep(0.1)

    writing = asyncio.create_task(authors())
    relays = [run_relay(), run_relay()]
    while not writing.done():
        await asyncio.sleep(1.5)
        relays.pop(0).kill()
        relays.append(run_relay())
    await waiting.until_empty()
    first_arrivals: dict[str, dict[int, None]] = defaultdict(dict)
    for record in await received(kafka.POST_EVENTS, 480):
        first_arrivals[record.key].update(dict.fromkeys(numbers([record])))
    assert {key: list(arrived) for key, arrived in first_arrivals.items()} == {
        str(author_id): list(range(60)) for author_id in range(1, 9)
    }


async def test_a_relay_process_stops_in_order(run_relay: RunRelay, waiting: Outbox) -> None:
    relay = run_relay()
    await waiting.until_shares_are(SHARDS)
    relay.terminate()
    assert await asyncio.to_thread(relay.wait, 10) == 0
    assert await waiting.sql.fetchval("SELECT count(*) FROM outbox_leases WHERE holder IS NOT NULL") == 0
    assert await waiting.sql.fetchval("SELECT count(*) FROM outbox_relays") == 0


# --- absences ---------------------------------------------------------------------------------------------------------


async def test_rows_wait_for_the_broker(
    start_relay: StartRelay,
    waiting: Outbox,
    broker: Any,
    received: Received,
) -> None:
    start_relay()
    await waiting.write(event(1, 0))
    await waiting.until_empty()
    broker.kill()
    for number in range(1, 30):
        await waiting.write(event(1, number))
        await asyncio.sleep(0.02)
    await asyncio.sleep(2 * LEASE_SECONDS)
    assert (await outbox.backlog(waiting.database)).rows == 29
    await broker.restart()
    await waiting.until_empty()
    assert numbers(await received(kafka.POST_EVENTS, 29)) == list(range(1, 30))


async def test_an_absent_broker_does_not_hold_up_the_end(
    start_relay: StartRelay,
    waiting: Outbox,
    broker: Any,
    received: Received,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox_relay, "LEAVE_SECONDS", 0.5)
    relay = start_relay()
    await waiting.until_shares_are(SHARDS)
    broker.kill()
    await waiting.write(*(event(author_id, author_id) for author_id in range(1, 50)))
    await asyncio.sleep(0.2)
    assert await relay.stop() < 3
    assert (await outbox.backlog(waiting.database)).rows == 49
    await broker.restart()
    start_relay()
    await waiting.until_empty()
    assert Counter(numbers(await received(kafka.POST_EVENTS, 49))) == Counter(range(1, 50))


async def test_a_relay_outlives_its_database(
    start_relay: StartRelay, waiting: Outbox, own_server: Postgres, received: Received
) -> None:
    relay = start_relay()
    await waiting.write(event(1, 1))
    await received(kafka.POST_EVENTS, 1)
    own_server.kill()
    await asyncio.sleep(2 * LEASE_SECONDS)
    own_server.launch()
    await asyncio.to_thread(own_server.wait_ready)
    await waiting.write(event(1, 2))
    arrived = numbers(await received(kafka.POST_EVENTS, 2))
    if arrived == [1, 1]:
        # The server died before the deletion of the first was on its disk, so that one was sent again.
        arrived = numbers(await received(kafka.POST_EVENTS, 3))
    assert 2 in arrived
    assert not relay.task.done()


# --- what Kafka refuses -----------------------------------------------------------------------------------------------

TOO_LARGE = 2_000_000


async def write_too_large(waiting: Outbox, author_id: int) -> int:
    """Commit an event that no broker takes; its id."""
    insert = "INSERT INTO outbox (topic, key, type, payload, headers) VALUES ($1, $2, 'T', $3, '{}') RETURNING id"
    return await waiting.sql.fetchval(insert, kafka.POST_EVENTS, str(author_id), bytes(TOO_LARGE))


async def test_a_row_that_is_refused_holds_back_its_author_alone_and_is_then_set_aside(
    start_relay: StartRelay, waiting: Outbox, received: Received, caplog: pytest.LogCaptureFixture
) -> None:
    start_relay(outbox_refused_seconds=2)
    await waiting.until_shares_are(SHARDS)
    refused = await write_too_large(waiting, 1)
    began = time.monotonic()
    while "events are refused, and sent again alone" not in caplog.messages:
        assert time.monotonic() - began < 10
        await asyncio.sleep(0.02)
    await waiting.write(event(1, 1), *(event(author_id, author_id) for author_id in range(2, 200)))
    await waiting.until_empty(but=2)
    assert time.monotonic() - began < 2, "others do not wait for it"
    assert {row["key"] for row in await waiting.sql.fetch("SELECT key FROM outbox")} == {"1"}
    await waiting.until_empty()
    assert 2 <= time.monotonic() - began < 6
    assert sorted(numbers(await received(kafka.POST_EVENTS, 199))) == list(range(1, 200))
    [row] = await waiting.sql.fetch("SELECT * FROM outbox_set_aside")
    assert (row["id"], row["key"], row["type"], row["payload"]) == (refused, "1", "T", bytes(TOO_LARGE))
    assert "too large" in row["reason"]
    [told] = [record for record in caplog.records if record.message.startswith("an event is set aside: ")]
    assert (told.levelname, vars(told)["event"], vars(told)["topic"]) == ("ERROR", refused, kafka.POST_EVENTS)


async def test_what_was_set_aside_is_listed_and_can_be_published_once_more(
    start_relay: StartRelay, waiting: Outbox, received: Received
) -> None:
    start_relay(outbox_refused_seconds=0.1)
    ids = [await write_too_large(waiting, author_id) for author_id in (1, 1, 2)]
    await waiting.until_empty()
    servicer = OutboxServicer(waiting.database)
    assert (await servicer.GetBacklog(outbox_pb2.GetBacklogRequest(), None)).set_aside == 3
    first = await servicer.ListSetAside(outbox_pb2.ListSetAsideRequest(page_size=2), None)
    assert [listed.id for listed in first.events] == ids[:2]
    rest = await servicer.ListSetAside(outbox_pb2.ListSetAsideRequest(page_token=first.next_page_token), None)
    [listed] = rest.events
    assert (listed.id, listed.topic, listed.key, listed.type) == (ids[2], kafka.POST_EVENTS, "2", "T")
    assert listed.payload_bytes == TOO_LARGE
    assert "too large" in listed.reason
    assert time.time() * 1000 - 20_000 < listed.created_at_ms <= listed.set_aside_at_ms < time.time() * 1000 + 1000
    assert not rest.next_page_token
    # Somebody makes them smaller, or the broker take larger ones.
    await waiting.sql.execute("UPDATE outbox_set_aside SET payload = 'x' WHERE id <> $1", ids[1])
    answer = await servicer.ReplaySetAside(outbox_pb2.ReplaySetAsideRequest(ids=[ids[2], ids[0], 1 << 40]), None)
    assert list(answer.ids) == [ids[0], ids[2]]
    assert sorted(record.key for record in await received(kafka.POST_EVENTS, 2)) == ["1", "2"]
    await waiting.until_empty()
    assert [row["id"] for row in await waiting.sql.fetch("SELECT id FROM outbox_set_aside")] == [ids[1]]


@pytest.mark.parametrize("token", ["garbage", "-1", "1.5", "٣", str(1 << 63)])
async def test_a_page_token_of_nobody_is_refused(waiting: Outbox, token: str) -> None:
    with pytest.raises(InvalidArgument, match="page_token"):
        await OutboxServicer(waiting.database).ListSetAside(outbox_pb2.ListSetAsideRequest(page_token=token), None)


# --- what else it says ------------------------------------------------------------------------------------------------


async def test_a_relay_that_needs_brokers_does_not_start_without(start_relay: StartRelay) -> None:
    with pytest.raises(ConfigurationError, match="FEED_KAFKA_BROKERS: is empty"):
        await start_relay(kafka_brokers="").task


async def test_where_everything_is_pulled_events_are_thrown_away(
    start_relay: StartRelay, waiting: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    start_relay(kafka_brokers="", celebrity_threshold=0)
    await waiting.write(*(event(author_id, 0) for author_id in range(1, 30)))
    await waiting.until_empty()
    assert any(record.levelname == "WARNING" and "thrown away" in record.message for record in caplog.records)


async def test_events_that_wait_long_are_logged(
    start_relay: StartRelay, waiting: Outbox, broker: Any, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    broker.kill()
    await waiting.write(event(1, 1))
    await waiting.sql.execute("UPDATE outbox SET created_at = now() - '5 seconds'::interval")
    start_relay(outbox_warn_seconds=4)
    await eventually(lambda: "events wait in the outbox" in caplog.messages)
    [record] = [record for record in caplog.records if record.message == "events wait in the outbox"]
    assert vars(record)["rows"] == 1
    assert vars(record)["oldest_age_ms"] >= 5000


async def test_the_backlog_is_told(waiting: Outbox) -> None:
    assert await outbox.backlog(waiting.database) == Backlog(0, 0, 0)
    await waiting.write(event(1, 1), event(2, 2))
    await waiting.sql.execute("UPDATE outbox SET created_at = now() - '5 seconds'::interval WHERE key = '2'")
    answer = await OutboxServicer(waiting.database).GetBacklog(outbox_pb2.GetBacklogRequest(), None)
    assert answer.rows == 2
    assert 5000 <= answer.oldest_age_ms < 10_000


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_outbox_has_the_same_layout(layout: str) -> None:
    layouts = [file.read_bytes() for file in SERVICES.glob(f"*/*/migrations/*_{layout}.sql")]
    assert len(layouts) == 2
    assert len(set(layouts)) == 1
