"""A service's pool works through PgBouncer in transaction mode as it does without, and says so where it cannot."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from devmesh.backends.postgres import Postgres
from feedkit import postgres
from feedkit.errors import DeadlineExceeded, FeedError, Unavailable
from feedkit.postgres import Database, PostgresSettings
from feedkit.server import StartError
from polling import until

from tests.servers.pgbouncer import PgBouncer

pytestmark = [pytest.mark.integration, pytest.mark.real]

SESSIONS = 2
"""How many PgBouncer has: far fewer than there are connections to it, so that it hands them from one to another."""


@pytest.fixture(scope="module")
def server() -> Generator[Postgres]:
    with Postgres(databases=["test"]) as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server: Postgres) -> Generator[PgBouncer]:
    with PgBouncer(server, pool_size=SESSIONS) as pooler:
        yield pooler


def told(server: Postgres, pooler: PgBouncer, **settings: Any) -> PostgresSettings:
    """What a process is told that is behind the pooler."""
    behind = {
        "postgres_dsn": pooler.dsn("test"),
        "postgres_direct_dsn": server.dsn("test"),
        "postgres_pooler": "transaction",
    }
    return PostgresSettings.model_validate({**behind, **settings})


@asynccontextmanager
async def several_processes(settings: PostgresSettings, count: int) -> AsyncGenerator[list[Database]]:
    """So many pools, as processes have one each."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(postgres.database(settings)) for _ in range(count)]


async def test_nobody_is_given_anothers_answer_though_all_share_two_sessions(
    server: Postgres, pooler: PgBouncer
) -> None:
    dice = random.Random(21)
    async with several_processes(told(server, pooler, postgres_acquire_seconds=30), 4) as processes:
        await _execute(processes[0], "CREATE TABLE IF NOT EXISTS kept (id int PRIMARY KEY, text text)")

        async def ask(number: int) -> None:
            database = processes[number % len(processes)]
            match dice.randrange(4):
                case 0:
                    async with database.connection() as connection:
                        assert await connection.fetchval("SELECT $1::int", number) == number
                case 1:
                    async with database.connection() as connection:
                        row = await connection.fetchrow("SELECT $1::text, $2::bigint[]", str(number), [number])
                        assert row is not None and tuple(row) == (str(number), [number])
                case 2:
                    async with database.transaction() as connection:
                        await connection.execute("INSERT INTO kept VALUES ($1, $2)", number, str(number))
                        texts = await connection.fetch("SELECT text FROM kept WHERE id = $1", number)
                        assert [row["text"] for row in texts] == [str(number)]
                case _:
                    async with database.connection() as connection:
                        await connection.executemany(
                            "INSERT INTO kept VALUES ($1, $2)", [(-number - 1, "a"), (number, "b")]
                        )

        gate = asyncio.Semaphore(60)

        async def gated(number: int) -> None:
            async with gate:
                await ask(number)

        await asyncio.gather(*map(gated, range(1000)))
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'test' AND backend_type = 'client backend'"
        assert await _fetch(processes[0], sessions) <= SESSIONS


async def test_a_statement_is_all_or_nothing_and_a_transaction_too(server: Postgres, pooler: PgBouncer) -> None:
    async with postgres.database(told(server, pooler)) as database:
        await _execute(database, "CREATE TABLE IF NOT EXISTS numbers (id int PRIMARY KEY)")
        with pytest.raises(asyncpg.UniqueViolationError):
            async with database.connection() as connection:
                await connection.executemany("INSERT INTO numbers VALUES ($1)", [(1,), (2,), (1,)])
        with pytest.raises(asyncpg.UniqueViolationError):
            async with database.transaction() as connection:
                await connection.execute("INSERT INTO numbers VALUES ($1)", 3)
                await connection.execute("INSERT INTO numbers VALUES ($1)", 3)
        assert await _fetch(database, "SELECT count(*) FROM numbers") == 0


async def test_a_statement_that_takes_too_long_is_cut_off_and_its_session_goes_on(
    server: Postgres, pooler: PgBouncer
) -> None:
    async with postgres.database(told(server, pooler, postgres_statement_seconds=0.3)) as database:
        for _ in range(2 * SESSIONS):
            with pytest.raises(DeadlineExceeded):
                await _fetch(database, "SELECT pg_sleep($1)", 30)
        assert await _fetch(database, "SELECT 17") == 17


async def test_who_leaves_keeps_no_session_from_others(server: Postgres, pooler: PgBouncer) -> None:
    async with several_processes(told(server, pooler), 2) as [leaving, staying]:
        for _ in range(40):
            tasks = [asyncio.create_task(_fetch(leaving, "SELECT $1::int", number)) for number in range(10)]
            await asyncio.sleep(random.random() * 0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            async with asyncio.timeout(2):
                assert await _fetch(staying, "SELECT $1::int", 17) == 17


async def test_a_mistake_keeps_no_session_from_others(server: Postgres, pooler: PgBouncer) -> None:
    """The driver finds it once the server has parsed the statement, and never has it executed."""
    async with several_processes(told(server, pooler), 2) as [mistaken, right]:
        outcomes = await asyncio.gather(
            *(_fetch(mistaken, "SELECT $1::bigint", 2**63) for _ in range(2 * SESSIONS)), return_exceptions=True
        )
        assert {type(outcome) for outcome in outcomes} == {asyncpg.DataError}
        async with asyncio.timeout(2):
            assert await _fetch(right, "SELECT $1::int", 17) == 17


async def test_a_restart_of_the_pooler_or_of_postgresql_costs_only_what_may_be_repeated() -> None:
    with Postgres(databases=["test"]) as server, PgBouncer(server, pool_size=SESSIONS) as pooler:
        async with postgres.database(told(server, pooler)) as database:
            stop = asyncio.Event()
            failures: list[type[FeedError]] = []
            answers = 0

            async def ask(number: int) -> None:
                nonlocal answers
                while not stop.is_set():
                    try:
                        assert await _fetch(database, "SELECT $1::int", number) == number
                    except FeedError as error:
                        failures.append(type(error))
                        await asyncio.sleep(0.02)
                    else:
                        answers += 1

            def at_least(enough: int) -> Callable[[], Awaitable[bool]]:
                async def reached() -> bool:
                    return answers >= enough

                return reached

            asking = [asyncio.create_task(ask(number)) for number in range(8)]
            for backend in (pooler, server, pooler):
                await asyncio.to_thread(backend.kill)
                await asyncio.to_thread(backend.start)
                await until(at_least(answers + 100), "100 more answers")
            stop.set()
            await asyncio.gather(*asking)
            assert set(failures) == {Unavailable}


# --- what cannot work is said ------------------------------------------------------------------------------------------


async def test_a_pooler_that_nobody_told_of_keeps_a_process_from_being_ready(
    server: Postgres, pooler: PgBouncer
) -> None:
    async with postgres.database(told(server, pooler, postgres_pooler="none")) as database:
        with pytest.raises(Unavailable) as found:
            await database.ping()
    assert "a pooler answers, which is not told of (FEED_POSTGRES_POOLER" in str(found.value.__cause__)


async def test_migrations_are_refused_where_the_direct_address_leads_to_the_pooler(
    server: Postgres, pooler: PgBouncer, tmp_path: Path
) -> None:
    (tmp_path / "0001.sql").write_text("CREATE TABLE migrated ()")
    wrong = told(server, pooler, postgres_direct_dsn=pooler.dsn("test"))
    with pytest.raises(StartError, match=r"^postgres: a pooler answers, .*FEED_POSTGRES_DIRECT_DSN\)$"):
        await postgres.migrate(wrong, tmp_path)
    await postgres.migrate(told(server, pooler), tmp_path)
    async with postgres.database(told(server, pooler)) as database:
        await postgres.migrated(database, tmp_path)()


async def _fetch(database: Database, query: str, *arguments: object) -> Any:
    async with database.connection() as connection:
        return await connection.fetchval(query, *arguments)


async def _execute(database: Database, query: str) -> None:
    async with database.connection() as connection:
        await connection.execute(query)
