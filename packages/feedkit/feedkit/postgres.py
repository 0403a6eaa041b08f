"""PostgreSQL: a traced pool whose failures are domain errors, and migrations."""

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from pydantic import Field, PostgresDsn, ValidationInfo, field_validator

from feedkit import telemetry
from feedkit.config import Settings
from feedkit.errors import DeadlineExceeded, Overloaded, Unavailable
from feedkit.server import Check, StartError

logger = logging.getLogger(__name__)

# Quoted, because the class is generic for the type checker only.
Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"

MIGRATION_LOCK = 0x_FEED
"""The advisory lock that one migrating process holds while others wait."""
MIGRATION_ATTEMPTS = 60
MIGRATION_PAUSE_SECONDS = 0.1
NO_TRANSACTION = "-- No transaction"
"""Begins a migration of statements that cannot be in a transaction, each ended by a semicolon at the end of its line. It
must be able to begin anew after having failed anywhere."""

# Looked at in this order: TimeoutError is an OSError, a cancelled query an operator's intervention, and an argument that
# fits no parameter, which is a mistake of ours, an InterfaceError.
_TOO_SLOW = (TimeoutError, asyncpg.QueryCanceledError)
_MISTAKE = (asyncpg.DataError,)
_UNREACHABLE = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.exceptions.ReadOnlySQLTransactionError,
    # Deadlocks and the like: nobody's mistake, and gone when tried again.
    asyncpg.exceptions.TransactionRollbackError,
)
CONNECT_SECONDS = 10.0
"""How long making a connection may take, however long the request that wants it can wait."""
RELEASE_SECONDS = 5.0
"""How long cancelling what a request left behind on its connection may take, before the connection is dropped."""
CLOSE_SECONDS = 5.0
"""How long the end of a process waits for connections that are still used."""


class Pooler(StrEnum):
    """What stands between a process and PostgreSQL, at `FEED_POSTGRES_DSN`."""

    NONE = "none"
    SESSION = "session"
    """Who connects to it has a session of PostgreSQL's for as long as the connection lasts."""
    TRANSACTION = "transaction"
    """Each transaction may be in another session, which knows nothing of what was prepared in earlier ones."""


class PostgresSettings(Settings):
    """Settings of a process that keeps its truth in PostgreSQL."""

    postgres_dsn: PostgresDsn = Field(description="The service's own database.")
    postgres_direct_dsn: PostgresDsn | None = Field(
        default=None,
        description="The same database without a pooler between, for what needs a session: migrations and LISTEN. "
        "The default is `FEED_POSTGRES_DSN`.",
    )
    postgres_pooler: Pooler = Field(
        default=Pooler.NONE,
        description="What `FEED_POSTGRES_DSN` leads to: `none`, PostgreSQL itself; `session`, a pooler that gives each "
        "connection a session; `transaction`, one that gives it for a transaction, as PgBouncer does with "
        "`pool_mode = transaction`: every statement is parsed anew then, which takes a round trip, and "
        "`FEED_POSTGRES_DIRECT_DSN` has to be set. A process that finds a pooler of which it was not told does not get "
        "ready.",
    )
    postgres_pool_size: int = Field(default=10, gt=0, description="The most connections that the process holds.")
    postgres_acquire_seconds: float = Field(
        default=1.0, gt=0, description="How long a request waits for a free connection before it is shed."
    )
    postgres_statement_seconds: float = Field(default=5.0, gt=0, description="The longest that one statement may take.")

    @field_validator("postgres_pooler")
    @classmethod
    def _leaves_a_way_to_sessions(cls, pooler: Pooler, told: ValidationInfo) -> Pooler:
        if pooler is Pooler.TRANSACTION and told.data.get("postgres_direct_dsn", "wrong") is None:
            raise ValueError("LISTEN and migrations need a session: set FEED_POSTGRES_DIRECT_DSN, past the pooler")
        return pooler

    @property
    def postgres_session_dsn(self) -> str:
        """The address of the database for what needs a session."""
        return str(self.postgres_direct_dsn or self.postgres_dsn)


class Database:
    """A pool of connections to a service's own database."""

    def __init__(
        self, pool: "asyncpg.Pool[asyncpg.Record]", acquire_seconds: float, *, shares_sessions: bool = False
    ) -> None:
        """`shares_sessions`: a pooler gives the session of a connection to others between transactions."""
        self._pool = pool
        self._acquire_seconds = acquire_seconds
        self._shares_sessions = shares_sessions
        self._keeping: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection for some statements, each a transaction of its own.

        Raises Overloaded where none is free in time, Unavailable where PostgreSQL cannot be reached, DeadlineExceeded
        where a statement took too long.
        """
        try:
            connection = await self._acquire()
        except TimeoutError as error:
            if self._pool.get_size() < self._pool.get_max_size():
                # There was room for one more connection, so it was the connecting that took too long.
                raise Unavailable.of_dependency("postgres", "does not answer") from error
            raise Overloaded("OVERLOADED", "no free connection to PostgreSQL", retry_after_ms=1000) from None
        except (*_UNREACHABLE, asyncpg.PostgresError) as error:
            raise Unavailable.of_dependency("postgres") from error
        cut_short = True
        try:
            yield connection
            cut_short = False
        except _TOO_SLOW as error:
            raise DeadlineExceeded("PostgreSQL did not answer in time") from error
        except _MISTAKE:
            raise
        except _UNREACHABLE as error:
            # What a driver says is for the cause, which is logged; it tells of addresses and users.
            raise Unavailable.of_dependency("postgres") from error
        finally:
            await self._give_back(connection, cut_short=cut_short)

    async def _acquire(self) -> Connection:
        pool = self._pool
        if pool.get_idle_size() > 0 or pool.get_size() >= pool.get_max_size():
            return await pool.acquire(timeout=self._acquire_seconds)
        # One has to be made. Where that takes longer than this request can wait, it goes on, and a later one finds it:
        # were it given up each time, a slow server would never get a single connection.
        making = asyncio.create_task(self._make())
        try:
            async with asyncio.timeout(self._acquire_seconds):
                return await asyncio.shield(making)
        except (TimeoutError, asyncio.CancelledError):
            self._keep(making)
            raise

    async def _make(self) -> Connection:
        return await self._pool.acquire(timeout=CONNECT_SECONDS)

    def _keep(self, making: "asyncio.Task[Connection]") -> None:
        """Let the pool have a connection that nobody waits for any more, once it is made."""

        async def keep() -> None:
            try:
                connection = await making
            except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError) as error:
                logger.info("a connection to PostgreSQL was not made: %s", error)
            else:
                await self._give_back(connection)

        task = asyncio.create_task(keep())
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _give_back(self, connection: Connection, *, cut_short: bool = False) -> None:
        try:
            if cut_short and self._shares_sessions:
                await asyncio.shield(_end(connection))
            # A cancelled request must still give its connection back; a query that it left is cancelled on the way, for
            # which a slow server needs more time than a request has for getting a connection.
            await asyncio.shield(self._pool.release(connection, timeout=RELEASE_SECONDS))
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError) as error:
            # The pool has dropped the connection. What was done with it stands, or has raised its own error.
            logger.info("dropped a connection to PostgreSQL: %s", error)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A connection with an open transaction, committed at the end of the block. Raises as `connection` does."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def ping(self) -> None:
        """Raise where PostgreSQL does not answer. A pool that is all in use is busy, not away."""
        try:
            async with self.connection() as connection:
                await connection.fetchval("SELECT 1")
        except Overloaded:
            logger.debug("no connection is free to ask PostgreSQL for a sign of life")


async def _end(connection: Connection) -> None:
    """End a statement that was parsed and then never executed: until then a pooler keeps its session from others."""
    await connection.execute("SELECT 1", timeout=RELEASE_SECONDS)


def migrated(database: Database, migrations: Traversable) -> Check:
    """A readiness check: PostgreSQL answers, and knows every migration that this code was written for.

    A process that is started before its migrations waits for them. Later ones do no harm: migrations first expand.
    """
    needed = {file.name for file in migrations.iterdir() if file.name.endswith(".sql")}
    known = False

    async def check() -> None:
        nonlocal known
        await database.ping()
        if not known:
            known = await _applied(database) >= needed
        if not known:
            raise Unavailable.of_dependency("postgres", "is not migrated")

    return check


class PoolerFound(asyncpg.InterfaceError):
    """Something answers in PostgreSQL's stead, though nobody said so."""

    def __init__(self) -> None:
        super().__init__("a pooler answers, which is not told of (FEED_POSTGRES_POOLER, FEED_POSTGRES_DIRECT_DSN)")


@asynccontextmanager
async def database(settings: PostgresSettings) -> AsyncGenerator[Database]:
    """Open the pool. It connects when first used, so a database that is away delays readiness, not the start."""
    pool: asyncpg.Pool[asyncpg.Record] = asyncpg.create_pool(
        str(settings.postgres_dsn),
        min_size=0,
        max_size=settings.postgres_pool_size,
        command_timeout=settings.postgres_statement_seconds,
        timeout=CONNECT_SECONDS,
        reset=_keep_session,
        **_fit_for(settings.postgres_pooler),
    )
    await pool
    try:
        yield Database(
            pool, settings.postgres_acquire_seconds, shares_sessions=settings.postgres_pooler is Pooler.TRANSACTION
        )
    finally:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await pool.close()
        except TimeoutError:
            logger.warning("connections to PostgreSQL were still in use at the end, and were cut")


def _fit_for(pooler: Pooler) -> dict[str, Any]:
    match pooler:
        case Pooler.NONE:
            return {"init": _once_found_alone()}
        case Pooler.SESSION:
            return {"init": _trace_queries}
        case Pooler.TRANSACTION:
            # Statements have no names: another session would not know them, or know another statement by them.
            return {"init": _trace_queries, "statement_cache_size": 0}


def _once_found_alone() -> Callable[[Any], Awaitable[None]]:
    """Prepares connections, unless the first of them is found to lead to a pooler."""
    alone = False

    async def prepare(connection: Any) -> None:
        nonlocal alone
        if not alone and await is_pooled(connection):
            raise PoolerFound
        alone = True
        await _trace_queries(connection)

    return prepare


async def is_pooled(connection: Any) -> bool:
    """Whether something answers in PostgreSQL's stead: whoever did told another process number than that which works."""
    # One round trip, and nothing that a pooler could mix up: it is neither prepared nor in need of a second statement.
    told = connection.get_server_pid()
    question = f"DO $$ BEGIN IF pg_backend_pid() <> {told} THEN RAISE EXCEPTION 'another'; END IF; END $$"
    try:
        await connection.execute(question, timeout=CONNECT_SECONDS)
    except asyncpg.RaiseError:
        return True
    return False


async def _trace_queries(connection: Any) -> None:
    connection.add_query_logger(_record_query)


async def _keep_session(connection: Any) -> None:
    """Nothing here changes a session, so the round trip that would reset it on every release is saved."""


def _record_query(query: asyncpg.connection.LoggedQuery) -> None:
    if not telemetry.is_recording():
        return
    statement = " ".join(query.query.split())
    attributes = {"db.system.name": "postgresql", "db.query.text": statement[:1000]}
    telemetry.record_client_span(
        f"postgresql {statement.split(' ', 1)[0].rstrip(';')}", query.elapsed, attributes, query.exception
    )


async def migrate(settings: PostgresSettings, migrations: Traversable) -> None:
    """Apply the numbered SQL files that have not been applied, in order, each in a transaction (but see NO_TRANSACTION).

    Several processes may call this at once: one works, the others wait and find nothing left to do. A file that was
    changed after it had been applied is an error. Waits for a database that is still starting.

    Raises StartError where a file was changed or fails; of what fails in a transaction nothing is kept.
    """
    connection = await _connect_for_migrations(settings.postgres_session_dsn)
    try:
        if settings.postgres_pooler is not Pooler.SESSION and await is_pooled(connection):
            raise StartError(f"postgres: {PoolerFound()}")
        # A statement that waited for the lock would be one that the making of an index, by whoever has it, waits for.
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", MIGRATION_LOCK):  # noqa: ASYNC110
            await asyncio.sleep(MIGRATION_PAUSE_SECONDS)
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, sha256 text NOT NULL, "
            "applied_at timestamptz NOT NULL DEFAULT now())"
        )
        applied = dict(await connection.fetch("SELECT name, sha256 FROM schema_migrations"))
        files = sorted((f for f in migrations.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
        for file in files:
            await _apply(connection, file, applied.get(file.name))
    finally:
        await connection.close()


async def _applied(database: Database) -> set[str]:
    try:
        async with database.connection() as connection:
            return {row["name"] for row in await connection.fetch("SELECT name FROM schema_migrations")}
    except asyncpg.UndefinedTableError:
        return set()


async def _connect_for_migrations(dsn: str) -> Any:
    for attempt in range(1, MIGRATION_ATTEMPTS + 1):
        try:
            return await asyncpg.connect(dsn, timeout=5)
        except (
            OSError,
            asyncpg.PostgresConnectionError,
            asyncpg.CannotConnectNowError,
            asyncpg.TooManyConnectionsError,
        ) as error:
            if attempt == MIGRATION_ATTEMPTS:
                raise StartError(f"postgres: {error}") from error
            logger.info("waiting for PostgreSQL: %s", error)
            await asyncio.sleep(1)
        except asyncpg.PostgresError as error:
            raise StartError(f"postgres: {error}") from error
    raise AssertionError("unreachable")


async def _apply(connection: Any, file: Traversable, applied_sha256: str | None) -> None:
    sql = file.read_text(encoding="utf-8")
    sha256 = hashlib.sha256(sql.encode()).hexdigest()
    if applied_sha256 == sha256:
        return
    if applied_sha256 is not None:
        raise StartError(f"migration {file.name} was changed after it had been applied; write a new one instead")
    noted = "INSERT INTO schema_migrations (name, sha256) VALUES ($1, $2)"
    try:
        if sql.startswith(NO_TRANSACTION):
            for statement in filter(str.strip, re.split(r";\s*$", sql, flags=re.MULTILINE)):
                await connection.execute(statement)
            await connection.execute(noted, file.name, sha256)
        else:
            async with connection.transaction():
                await connection.execute(sql)
                await connection.execute(noted, file.name, sha256)
    except asyncpg.PostgresError as error:
        raise StartError(f"migration {file.name}: {error}") from error
    logger.info("applied migration %s", file.name)
