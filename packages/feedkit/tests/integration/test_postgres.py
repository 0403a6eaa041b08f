"""The pool tells its failures apart, gives every connection back, and never mixes up answers."""

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from devmesh.backends.postgres import Postgres
from feedkit import postgres, telemetry
from feedkit.errors import DeadlineExceeded, FeedError, Overloaded, Unavailable
from feedkit.postgres import Database, PostgresSettings
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

pytestmark = pytest.mark.integration

OpenDatabase = Callable[..., Awaitable[Database]]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


async def fetch(database: Database, query: str, *arguments: object) -> Any:
    async with database.connection() as connection:
        return await connection.fetchval(query, *arguments)


async def connections(dsn: str) -> list[asyncpg.Record]:
    """All other connections to the database, with their states."""
    observer = await asyncpg.connect(dsn)
    try:
        return await observer.fetch(
            "SELECT pid, state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
    finally:
        await observer.close()


async def until_one_is(state: str, dsn: str) -> None:
    for _ in range(1000):
        if any(row["state"] == state for row in await connections(dsn)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"no connection became {state}")


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_a_pool_in_use_sheds_quickly_and_says_when_to_come_back(open_database: OpenDatabase) -> None:
    database = await open_database(postgres_pool_size=1, postgres_acquire_seconds=0.2)
    async with database.connection():
        began = time.monotonic()
        with pytest.raises(Overloaded) as shed:
            await fetch(database, "SELECT 1")
        assert time.monotonic() - began < 1
    assert shed.value.metadata == {"retry_after_ms": "1000"}
    assert await fetch(database, "SELECT 1") == 1


async def test_a_pool_in_use_is_no_reason_not_to_be_ready(open_database: OpenDatabase) -> None:
    database = await open_database(postgres_pool_size=1, postgres_acquire_seconds=0.2)
    async with database.connection():
        await database.ping()


async def test_a_server_that_refuses_is_unavailable(open_database: OpenDatabase) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    database = await open_database(postgres_dsn=f"postgresql://postgres@127.0.0.1:{port}/test")
    with pytest.raises(Unavailable, match=r"^postgres: cannot be reached$") as refused:
        await database.ping()
    assert refused.value.metadata == {"dependency": "postgres"}
    assert str(port) in str(refused.value.__cause__)


async def test_a_server_that_never_answers_is_unavailable(open_database: OpenDatabase) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        database = await open_database(
            postgres_dsn=f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/test", postgres_acquire_seconds=0.2
        )
        with pytest.raises(Unavailable):
            await database.ping()


async def test_a_database_that_is_not_there_is_unavailable(open_database: OpenDatabase, server: Postgres) -> None:
    database = await open_database(postgres_dsn=server.dsn("nothing"))
    with pytest.raises(Unavailable) as refused:
        await database.ping()
    assert 'database "nothing" does not exist' in str(refused.value.__cause__)


async def test_a_statement_that_takes_too_long_is_cut_off(open_database: OpenDatabase) -> None:
    database = await open_database(postgres_pool_size=1, postgres_statement_seconds=0.2)
    with pytest.raises(DeadlineExceeded):
        await fetch(database, "SELECT pg_sleep(10)")
    assert await fetch(database, "SELECT 17") == 17


async def test_a_deadlock_is_worth_a_retry(open_database: OpenDatabase) -> None:
    database = await open_database()
    await fetch(database, "CREATE TABLE IF NOT EXISTS tables (id int PRIMARY KEY, n int)")
    await fetch(database, "INSERT INTO tables VALUES (1, 0), (2, 0) ON CONFLICT DO NOTHING")
    both_hold_one = asyncio.Barrier(2)

    async def update(first: int, second: int) -> None:
        async with database.transaction() as connection:
            await connection.execute("UPDATE tables SET n = n + 1 WHERE id = $1", first)
            await both_hold_one.wait()
            await connection.execute("UPDATE tables SET n = n + 1 WHERE id = $1", second)

    outcomes = await asyncio.gather(update(1, 2), update(2, 1), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "Unavailable"]


@pytest.mark.parametrize(
    ("query", "argument"),
    [("SELECT $1::bigint", 2**63), ("SELECT $1::text", 17), ("SELECT * FROM nothing_of_the_kind", None)],
)
async def test_a_mistake_of_ours_is_no_absence(open_database: OpenDatabase, query: str, argument: object) -> None:
    database = await open_database()
    with pytest.raises((asyncpg.DataError, asyncpg.UndefinedTableError)):
        await fetch(database, query, *([] if argument is None else [argument]))


async def test_an_error_of_the_caller_passes_through_and_rolls_back(open_database: OpenDatabase) -> None:
    database = await open_database()
    await fetch(database, "CREATE TABLE IF NOT EXISTS rolled_back (id int)")
    with pytest.raises(Overloaded, match="no"):
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO rolled_back VALUES (1)")
            raise Overloaded("OVERLOADED", "no")
    assert await fetch(database, "SELECT count(*) FROM rolled_back") == 0


async def test_connections_in_use_do_not_hold_up_the_end(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "CLOSE_SECONDS", 0.2)
    async with postgres.database(PostgresSettings.model_validate({"postgres_dsn": dsn})) as database:
        task = asyncio.create_task(fetch(database, "SELECT pg_sleep(2)"))
        await until_one_is("active", dsn)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    with pytest.raises(Unavailable):
        await task


async def test_a_server_that_dies_after_the_answer_takes_nothing_back(open_database: OpenDatabase) -> None:
    database = await open_database(postgres_pool_size=1)
    for _ in range(20):
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT 1") == 1
            inner: Any = connection
            asyncio.get_running_loop().call_soon(inner._con._transport.abort)
    assert await fetch(database, "SELECT 2") == 2


async def test_a_slow_server_is_connected_to_in_the_end(server: Postgres, open_database: OpenDatabase) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", server.port)

        async def slowly() -> None:
            while data := await reader.read(65536):
                await asyncio.sleep(0.15)
                back.write(data)

        async def at_once() -> None:
            while data := await there.read(65536):
                writer.write(data)

        tasks = [asyncio.create_task(slowly()), asyncio.create_task(at_once())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        back.close()
        writer.close()

    slow = await asyncio.start_server(relay, "127.0.0.1", 0)
    port = slow.sockets[0].getsockname()[1]
    async with slow:
        database = await open_database(
            postgres_dsn=f"postgresql://postgres@127.0.0.1:{port}/test", postgres_acquire_seconds=0.2
        )
        for _ in range(50):
            try:
                assert await fetch(database, "SELECT 1") == 1
            except Unavailable:
                continue
            return
        pytest.fail("no connection was ever made")


# --- a restart --------------------------------------------------------------------------------------------------------


async def test_a_living_pool_survives_a_restart() -> None:
    with Postgres(databases=["test"]) as server:
        settings = PostgresSettings.model_validate({"postgres_dsn": server.dsn("test"), "postgres_pool_size": 5})
        async with postgres.database(settings) as database:

            async def query() -> type[BaseException] | int:
                try:
                    return await fetch(database, "SELECT 17 FROM pg_sleep(0.02)")
                except FeedError as error:
                    return type(error)

            await asyncio.gather(*(query() for _ in range(5)))
            going = [asyncio.create_task(query()) for _ in range(5)]
            await asyncio.to_thread(server.kill)
            during = set(await asyncio.gather(*going, *(query() for _ in range(5))))
            assert during <= {17, Unavailable}
            with pytest.raises(Unavailable):
                await database.ping()
            await asyncio.to_thread(server.start)
            assert set(await asyncio.gather(*(query() for _ in range(10)))) == {17}
            await database.ping()


# --- cancelled callers ------------------------------------------------------------------------------------------------


async def test_a_cancelled_caller_leaves_a_clean_connection(open_database: OpenDatabase, dsn: str) -> None:
    database = await open_database(postgres_pool_size=1)

    async def hold() -> None:
        async with database.transaction() as connection:
            await connection.execute("SELECT pg_sleep(30)")

    task = asyncio.create_task(hold())
    await until_one_is("active", dsn)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.connection() as connection:
        assert not connection.is_in_transaction()
        assert await connection.fetchval("SELECT pg_current_xact_id_if_assigned()") is None


async def test_cancellations_never_lose_a_connection_nor_give_anybody_anothers_answer(
    open_database: OpenDatabase, dsn: str
) -> None:
    database = await open_database(postgres_pool_size=4, postgres_acquire_seconds=5)
    await fetch(database, "CREATE TABLE IF NOT EXISTS written (id int)")
    chance = random.Random(17)
    answers = 0

    async def read(number: int) -> None:
        nonlocal answers
        pause = chance.choice([0, 0, 0.001, 0.005])
        assert await fetch(database, "SELECT $1::int FROM pg_sleep($2)", number, pause) == number
        answers += 1

    async def write(number: int) -> None:
        nonlocal answers
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO written VALUES ($1)", number)
            assert await connection.fetchval("SELECT max(id) FROM written WHERE id = $1", number) == number
            await connection.execute("DELETE FROM written WHERE id = $1", number)
        answers += 1

    async def impatient(number: int) -> None:
        task = asyncio.create_task(chance.choice([read, write])(number))
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.002, 0.01]))
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return

    for start in range(0, 2000, 50):
        await asyncio.gather(*(impatient(number) for number in range(start, start + 50)))
    assert answers > 500
    async with asyncio.timeout(5):
        held = [database.connection() for _ in range(4)]
        opened = [await connection.__aenter__() for connection in held]
        assert not any(connection.is_in_transaction() for connection in opened)
        for connection in held:
            await connection.__aexit__(None, None, None)
    assert await fetch(database, "SELECT count(*) FROM written") == 0
    for _ in range(500):  # the server takes a moment to notice what was cut
        states = [row["state"] for row in await connections(dsn)]
        if states == ["idle"] * len(states) and len(states) <= 4:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("connections are left over")


async def test_cancellations_while_connecting_lose_no_place(open_database: OpenDatabase) -> None:
    for _ in range(10):
        database = await open_database(postgres_pool_size=2, postgres_acquire_seconds=2)
        tasks = [asyncio.create_task(fetch(database, "SELECT 1")) for _ in range(6)]
        await asyncio.sleep(random.random() * 0.03)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await asyncio.gather(*(fetch(database, "SELECT 1") for _ in range(4))) == [1] * 4


# --- traces -----------------------------------------------------------------------------------------------------------


async def test_queries_of_a_recorded_request_are_its_children_and_lie_within_it(
    open_database: OpenDatabase, spans: InMemorySpanExporter
) -> None:
    database = await open_database()
    with telemetry.server_span("request", telemetry.extract(SAMPLED), {}) as request:
        async with database.transaction() as connection:
            await connection.fetchval("SELECT $1::text,\n       2", "a secret")
    *queries, outer = spans.get_finished_spans()
    assert [span.name for span in queries] == ["postgresql BEGIN", "postgresql SELECT", "postgresql COMMIT"]
    assert [span.parent for span in queries] == [request.get_span_context()] * 3
    assert all((outer.start_time or 0) <= (span.start_time or 0) for span in queries)
    assert all((span.end_time or 0) <= (outer.end_time or 0) for span in queries)
    assert dict(queries[1].attributes or {}) == {"db.system.name": "postgresql", "db.query.text": "SELECT $1::text, 2"}


async def test_a_query_that_failed_says_so(open_database: OpenDatabase, spans: InMemorySpanExporter) -> None:
    database = await open_database()
    with pytest.raises(asyncpg.UndefinedTableError), telemetry.server_span("r", telemetry.extract(SAMPLED), {}):
        await fetch(database, "SELECT * FROM nothing_of_the_kind")
    failed = [span for span in spans.get_finished_spans() if span.name == "postgresql SELECT"]
    assert [span.status.status_code for span in failed] == [StatusCode.ERROR]


async def test_queries_of_a_request_that_is_not_recorded_make_no_spans(
    open_database: OpenDatabase, spans: InMemorySpanExporter
) -> None:
    database = await open_database()
    headers = {"traceparent": SAMPLED["traceparent"].replace("-01", "-00")}
    with telemetry.server_span("request", telemetry.extract(headers), {}):
        await fetch(database, "SELECT 1")
    await fetch(database, "SELECT 1")
    assert spans.get_finished_spans() == ()
