"""Migrations are applied once each, in order, whole or not at all, whoever else applies them at that moment."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import asyncpg
import pytest
from devmesh.backends.postgres import Postgres
from feedkit import postgres
from feedkit.errors import Unavailable
from feedkit.postgres import PostgresSettings
from feedkit.server import StartError

pytestmark = pytest.mark.integration

_numbers = count()


@pytest.fixture
async def settings(server: Postgres, dsn: str) -> PostgresSettings:
    """Settings with an empty database."""
    name = f"migrated_{next(_numbers)}"
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return PostgresSettings.model_validate({"postgres_dsn": server.dsn(name)})


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Write migrations; their directory."""

    def files(**contents: str) -> Path:
        for name, sql in contents.items():
            (tmp_path / f"{name}.sql").write_text(sql)
        return tmp_path

    yield files


async def query(settings: PostgresSettings, sql: str) -> list[object]:
    """The first column of the answer."""
    connection = await asyncpg.connect(str(settings.postgres_dsn))
    try:
        return [row[0] for row in await connection.fetch(sql)]
    finally:
        await connection.close()


LOG = "CREATE TABLE log (entry serial, name text); INSERT INTO log (name) VALUES ('first')"


async def test_they_are_applied_in_the_order_of_their_names(
    settings: PostgresSettings, write: Callable[..., Path]
) -> None:
    migrations = write(
        _0010_c="INSERT INTO log (name) VALUES ('third')",
        _0001_a=LOG,
        _0002_b="INSERT INTO log (name) VALUES ('second')",
    )
    (migrations / "README.md").write_text("not a migration")
    await postgres.migrate(settings, migrations)
    assert await query(settings, "SELECT name FROM log ORDER BY entry") == ["first", "second", "third"]


async def test_a_process_is_ready_when_all_that_it_was_written_for_are_applied(
    settings: PostgresSettings, write: Callable[..., Path]
) -> None:
    migrations = write(_0001_a=LOG)
    async with postgres.database(settings) as database:
        with pytest.raises(Unavailable, match="is not migrated"):
            await postgres.migrated(database, migrations)()
        await postgres.migrate(settings, migrations)
        await postgres.migrated(database, migrations)()
        newer = write(_0002_b="SELECT 1")
        with pytest.raises(Unavailable, match="is not migrated"):
            await postgres.migrated(database, newer)()


async def test_each_is_applied_once(settings: PostgresSettings, write: Callable[..., Path]) -> None:
    await postgres.migrate(settings, write(_0001=LOG))
    await postgres.migrate(settings, write(_0002="INSERT INTO log (name) VALUES ('second')"))
    await postgres.migrate(settings, write())
    assert await query(settings, "SELECT name FROM log ORDER BY entry") == ["first", "second"]


async def test_of_many_that_run_them_at_once_one_does_and_all_succeed(
    settings: PostgresSettings, write: Callable[..., Path]
) -> None:
    migrations = write(_0001=LOG + "; SELECT pg_sleep(0.1)", _0002="INSERT INTO log (name) VALUES ('second')")
    await asyncio.gather(*(postgres.migrate(settings, migrations) for _ in range(8)))
    assert await query(settings, "SELECT name FROM log ORDER BY entry") == ["first", "second"]


async def test_one_that_was_changed_afterwards_is_refused_by_name(
    settings: PostgresSettings, write: Callable[..., Path]
) -> None:
    await postgres.migrate(settings, write(_0001=LOG))
    with pytest.raises(StartError, match=r"^migration _0001\.sql was changed after it had been applied"):
        await postgres.migrate(settings, write(_0001=LOG + " ", _0002="SELECT 1"))
    assert await query(settings, "SELECT name FROM schema_migrations") == ["_0001.sql"]


async def test_one_that_fails_leaves_nothing_and_those_before_it_stand(
    settings: PostgresSettings, write: Callable[..., Path]
) -> None:
    migrations = write(_0001=LOG, _0002="CREATE TABLE half (); INSERT INTO nowhere VALUES (1)", _0003="SELECT 1")
    with pytest.raises(StartError, match=r'^migration _0002\.sql: relation "nowhere" does not exist$'):
        await postgres.migrate(settings, migrations)
    assert await query(settings, "SELECT to_regclass('half')") == [None]
    assert await query(settings, "SELECT name FROM schema_migrations") == ["_0001.sql"]
    await postgres.migrate(settings, write(_0002="CREATE TABLE whole ()"))
    assert await query(settings, "SELECT count(*) FROM schema_migrations") == [3]


INDEX = """-- No transaction: the index is made while others write.
DROP INDEX CONCURRENTLY IF EXISTS log_names;
CREATE UNIQUE INDEX CONCURRENTLY log_names ON log (name);
"""


async def test_an_index_is_made_without_a_transaction_by_one_of_many(
    settings: PostgresSettings, write: Callable[..., Path]
) -> None:
    migrations = write(_0001=LOG, _0002=INDEX)
    await asyncio.gather(*(postgres.migrate(settings, migrations) for _ in range(8)))
    assert await query(settings, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'log_names'::regclass") == [True]
    assert await query(settings, "SELECT name FROM schema_migrations ORDER BY name") == ["_0001.sql", "_0002.sql"]


async def test_an_index_that_failed_is_made_anew(settings: PostgresSettings, write: Callable[..., Path]) -> None:
    migrations = write(_0001=f"{LOG}; INSERT INTO log (name) VALUES ('first')", _0002=INDEX)  # noqa: S608 (our own text)
    with pytest.raises(StartError, match="could not create unique index"):
        await postgres.migrate(settings, migrations)
    await query(settings, "DELETE FROM log WHERE entry = 2 RETURNING entry")
    await postgres.migrate(settings, migrations)
    assert await query(settings, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'log_names'::regclass") == [True]


async def test_they_go_to_the_direct_address_where_there_is_one(
    settings: PostgresSettings, write: Callable[..., Path]
) -> None:
    pooled = PostgresSettings.model_validate(
        {"postgres_dsn": "postgresql://postgres@127.0.0.1:1/pooler", "postgres_direct_dsn": str(settings.postgres_dsn)}
    )
    await postgres.migrate(pooled, write(_0001=LOG))
    assert await query(settings, "SELECT name FROM log") == ["first"]


async def test_a_database_that_is_not_there_is_one_clear_line(server: Postgres, write: Callable[..., Path]) -> None:
    with pytest.raises(StartError, match=r'^postgres: database "nothing" does not exist$'):
        await postgres.migrate(PostgresSettings.model_validate({"postgres_dsn": server.dsn("nothing")}), write())


async def test_a_server_that_is_still_starting_is_waited_for(write: Callable[..., Path]) -> None:
    server = Postgres(databases=[])
    settings = PostgresSettings.model_validate({"postgres_dsn": server.dsn("postgres")})
    migrating = asyncio.create_task(postgres.migrate(settings, write(_0001=LOG)))
    await asyncio.sleep(0.1)
    assert not migrating.done()
    await asyncio.to_thread(server.start)
    try:
        await migrating
        assert await query(settings, "SELECT name FROM log") == ["first"]
    finally:
        server.stop()


async def test_a_server_that_never_comes_is_one_clear_line(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "MIGRATION_ATTEMPTS", 2)
    settings = PostgresSettings.model_validate({"postgres_dsn": "postgresql://postgres@127.0.0.1:1/test"})
    with pytest.raises(StartError, match=r"^postgres: "):
        await postgres.migrate(settings, write())
