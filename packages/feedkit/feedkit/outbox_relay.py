"""The relay: publishes what waits in an outbox to Kafka, and deletes what the broker has acknowledged.

It remembers nothing of what it has published: it reads what is there, from the smallest id, so a row that becomes visible
late is read when it does, and gaps in the ids mean nothing. Of each shard one batch is on its way at a time, so no row of
a key is sent before an earlier one that was visible has been acknowledged. A relay that dies between the acknowledgement
and the delete repeats that batch; none is lost.

A row that Kafka refuses, because it is too large or malformed, holds back the rest of its key: it is sent again alone for a
while, and then set aside (`feedkit.outbox_set_aside`). What was sent along with it may have gone before it.

Several relays share the shards by leases. A relay that was frozen beyond the end of its lease may publish once more what
another has published: consumers take repeated events.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from importlib.resources.abc import Traversable
from typing import NamedTuple, Protocol
from uuid import uuid4

import asyncpg
from pydantic import Field

from feedkit import kafka, outbox, outbox_set_aside, postgres, telemetry
from feedkit.config import PREFIX, ConfigurationError
from feedkit.errors import DeadlineExceeded, Overloaded, Unavailable
from feedkit.kafka import KafkaSettings, Record, RecordRefused
from feedkit.key_settings import CelebritySettings
from feedkit.outbox_leases import SHARDS, Leases
from feedkit.outbox_refusals import Refusals
from feedkit.postgres import Database, PostgresSettings
from feedkit.server import Check, GrpcServerSettings, Process

logger = logging.getLogger(__name__)

CHANNEL = "outbox"
"""Where the outbox's trigger notifies, with the number of the shard."""
LEAVE_SECONDS = 3.0
"""How long the end of a relay waits for batches on their way, and then for the database."""
LISTEN_CHECK_SECONDS = 5.0
"""How often the connection that listens is tried out, because a dead one is as silent as a quiet one."""
RETRY_SECONDS = 0.5
WATCH_EVERY_SECONDS = 10.0

NOT_NOW = (Unavailable, Overloaded, DeadlineExceeded)
_CONNECTION_FAILS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

_READ = "SELECT id, topic, key, type, payload, headers FROM outbox_first($1, $2, $3)"
# A delete that a crash undoes is done again, after a repeated record: no reason to wait for the disk.
_DELETE = """
DELETE FROM outbox USING set_config('synchronous_commit', 'off', true) WHERE shard = $1 AND id = ANY($2::bigint[])
"""
_WAITING = """
SELECT shard FROM unnest($1::smallint[]) AS held (shard) WHERE EXISTS (SELECT FROM outbox_first(held.shard, 1))
"""


class RelaySettings(GrpcServerSettings, PostgresSettings, KafkaSettings, CelebritySettings):
    """What a relay can be told."""

    outbox_batch_size: int = Field(default=500, gt=0, description="How many events of a shard are sent at a time.")
    outbox_lease_seconds: float = Field(
        default=4.0,
        ge=1,
        description="How long a relay that is killed keeps its shards from the others. Leases are renewed after a quarter.",
    )
    outbox_poll_seconds: float = Field(
        default=1.0,
        gt=0,
        description="How often the outbox is looked at where no notification comes; 0.01 where its trigger is disabled.",
    )
    outbox_warn_seconds: float = Field(
        default=10.0, gt=0, description="How long an event may wait before that is logged as a warning."
    )
    outbox_refused_seconds: float = Field(
        default=10.0,
        gt=0,
        description="How long an event that Kafka refuses, because it is too large or malformed, is sent again and holds "
        "back later ones of its author, before it is set aside.",
    )


class Sink(Protocol):
    """Where events go."""

    async def send_records(self, records: Sequence[Record]) -> list[Exception | None]:
        """Send, and tell of each record what became of it: None where it has arrived."""
        ...

    def withdraw(self) -> None:
        """Give up what is on its way."""
        ...


class Nowhere:
    """The sink of a community in which everything is pulled: nobody needs the events."""

    async def send_records(self, records: Sequence[Record]) -> list[Exception | None]:
        """Throw all of them away."""
        return [None] * len(records)

    def withdraw(self) -> None:
        """There is nothing on its way."""


class Row(NamedTuple):
    """An event that waits."""

    id: int
    record: Record

    @property
    def key(self) -> str:
        """What keeps its order."""
        return self.record.key


class Rows:
    """What waits, in PostgreSQL."""

    def __init__(self, database: Database, batch_size: int) -> None:
        self._database = database
        self._batch_size = batch_size

    async def read(self, shard: int, but_of_keys: Sequence[str]) -> list[Row]:
        """The first rows of a shard that are visible now, but for those of some keys."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(_READ, shard, self._batch_size, but_of_keys)
        return [
            Row(row_id, kafka.typed_record(topic, key, type_name, payload, json.loads(headers)))
            for row_id, topic, key, type_name, payload, headers in rows
        ]

    async def delete(self, shard: int, ids: Sequence[int]) -> None:
        """Delete rows."""
        async with self._database.connection() as connection:
            await connection.execute(_DELETE, shard, ids)

    async def set_aside(self, shard: int, row: Row, reason: str) -> None:
        """Move a row to those that nobody publishes until an operator asks for it."""
        await outbox_set_aside.set_aside(self._database, shard, row.id, reason)

    async def waiting(self, shards: Sequence[int]) -> list[int]:
        """Those of some shards in which something waits."""
        async with self._database.connection() as connection:
            return [row[0] for row in await connection.fetch(_WAITING, shards)]


class Relay:
    """Publishes the shards that it holds leases on."""

    def __init__(
        self, rows: Rows, leases: Leases, sink: Sink, *, lease_seconds: float, patience_seconds: float
    ) -> None:
        """A row that Kafka refuses for `patience_seconds` is set aside."""
        self._rows = rows
        self._leases = leases
        self._sink = sink
        self._lease_seconds = lease_seconds
        self._heartbeat_seconds = lease_seconds / 4
        self._patience_seconds = patience_seconds
        self._alone = asyncio.Lock()
        self._valid_until = 0.0
        self._wakes = [asyncio.Event() for _ in range(SHARDS)]
        self._publishing: dict[int, asyncio.Task[None]] = {}
        self._leaving: set[int] = set()
        self._troubled: set[int] = set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Publish until asked to stop; then finish what is on its way, for a bounded time, and give up the shards."""
        async with asyncio.TaskGroup() as tasks:
            while not stopping.is_set():
                await self._keep_leases(tasks)
                await _until(stopping, self._heartbeat_seconds)
            await self._leave()

    def wake(self, *shards: int) -> None:
        """Look at some shards now; at all that are held if none is named."""
        for shard in shards or range(SHARDS):
            self._wakes[shard].set()

    async def look(self) -> None:
        """Wake for what waits unannounced."""
        if self._publishing and (waiting := await self._rows.waiting(list(self._publishing))):
            self.wake(*waiting)

    # --- leases -----------------------------------------------------------------------------------------------------------

    async def _keep_leases(self, tasks: asyncio.TaskGroup) -> None:
        now = asyncio.get_running_loop().time()
        left = self._valid_until - now if self._publishing else self._lease_seconds
        try:
            async with asyncio.timeout(left):
                await self._renew(tasks, now)
        except (*NOT_NOW, TimeoutError) as error:
            logger.warning(
                "the leases on the outbox were not renewed: %s", str(error) or "the database does not answer"
            )
        if not self._valid():
            await self._lose(set(self._publishing))

    async def _renew(self, tasks: asyncio.TaskGroup, now: float) -> None:
        if ended := [shard for shard, task in self._publishing.items() if task.done()]:
            await self._leases.give_back(ended)
            self._forget(ended)
        held, share = await self._leases.renew()
        # By our clock the lease began when we asked, so it ends here before it does in the database.
        self._valid_until = now + self._lease_seconds
        await self._lose(self._publishing.keys() - held)
        self._begin(tasks, held - self._publishing.keys())
        for shard in sorted(held)[share:]:
            self._leaving.add(shard)
            self.wake(shard)
        if len(held) < share:
            self._begin(tasks, await self._leases.take(share - len(held)))

    def _valid(self) -> bool:
        return asyncio.get_running_loop().time() < self._valid_until

    def _begin(self, tasks: asyncio.TaskGroup, shards: Collection[int]) -> None:
        for shard in shards:
            self._publishing[shard] = tasks.create_task(self._publish(shard))
        if shards:
            logger.info("publishing shards of the outbox", extra={"shards": sorted(self._publishing)})

    def _forget(self, shards: Collection[int]) -> None:
        for shard in shards:
            del self._publishing[shard]
            self._leaving.discard(shard)

    async def _lose(self, shards: Collection[int]) -> None:
        """Stop at once with shards that others may be publishing now."""
        tasks = [self._publishing[shard] for shard in shards]
        if any(not task.done() for task in tasks):
            logger.warning("stopped publishing shards of the outbox", extra={"shards": sorted(shards)})
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            # Left to itself, Kafka's client would send what it still holds even hours later.
            self._sink.withdraw()
        self._forget(shards)

    async def _leave(self) -> None:
        self._leaving.update(self._publishing)
        self.wake()
        if self._publishing:
            await asyncio.wait(self._publishing.values(), timeout=LEAVE_SECONDS)
        await self._lose(set(self._publishing))
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._leases.leave()
        except (*NOT_NOW, TimeoutError):
            logger.warning("the leases on the outbox were not given back; they lapse by themselves")

    # --- one shard --------------------------------------------------------------------------------------------------------

    async def _publish(self, shard: int) -> None:
        refusals = Refusals[Row](patience_seconds=self._patience_seconds, retry_seconds=RETRY_SECONDS)
        while shard not in self._leaving:
            self._wakes[shard].clear()
            try:
                await self._try_again(shard, refusals)
                if not await self._pass_on(shard, refusals):
                    await _until(self._wakes[shard], refusals.pause(_now()))
            except NOT_NOW as error:
                if shard not in self._troubled:
                    logger.warning("a shard of the outbox is held up: %s", error, extra={"shard": shard})
                self._troubled.add(shard)
                await asyncio.sleep(RETRY_SECONDS)

    async def _pass_on(self, shard: int, refusals: Refusals[Row]) -> bool:
        """Publish and delete the first batch of a shard. False where there was none.

        Raises what kept a row from being published, but for refusals; rows that were published are deleted all the same.
        """
        rows = await self._rows.read(shard, refusals.keys)
        if not rows or not self._valid():
            return False
        outcomes = await self._sink.send_records([row.record for row in rows])
        if arrived := [row.id for row, outcome in zip(rows, outcomes, strict=True) if outcome is None]:
            await self._rows.delete(shard, arrived)
        refused = [row for row, outcome in zip(rows, outcomes, strict=True) if isinstance(outcome, RecordRefused)]
        if refused:
            logger.warning("events are refused, and sent again alone", extra={"shard": shard, "events": len(refused)})
            refusals.note(refused, _now())
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, RecordRefused):
                raise outcome
        self._troubled.discard(shard)
        return True

    async def _try_again(self, shard: int, refusals: Refusals[Row]) -> None:
        """Send refused rows once more if it is time to, each alone: the broker refuses all that it gets in one piece."""
        for row in refusals.take_due(_now()):
            if not self._valid():
                return
            # Nor may it meet what was refused of another shard.
            async with self._alone:
                [outcome] = await self._sink.send_records([row.record])
            if outcome is None:
                await self._rows.delete(shard, [row.id])
                refusals.forget(row)
            elif not isinstance(outcome, RecordRefused):
                raise outcome
            elif refusals.note_again(row, _now()):
                await self._rows.set_aside(shard, row, str(outcome))
                refusals.forget(row)
                about = {"event": row.id, "topic": row.record.topic, "key": row.key}
                logger.error("an event is set aside: %s", outcome, extra=about)


async def run(process: Process, settings: RelaySettings, migrations: Traversable) -> None:
    """Publish the outbox of a service until the process is stopped; `migrations` are those that make its tables."""
    database = await process.enter(postgres.database(settings))
    # Requests that wait for the other connections must not make leases lapse.
    upkeep = await process.enter(postgres.database(settings.model_copy(update={"postgres_pool_size": 2})))
    sink, reachable = await _sink(process, settings)
    migrated = postgres.migrated(upkeep, migrations)
    leases = Leases(upkeep, uuid4(), settings.outbox_lease_seconds)
    rows = Rows(database, settings.outbox_batch_size)
    relay = Relay(
        rows,
        leases,
        sink,
        lease_seconds=settings.outbox_lease_seconds,
        patience_seconds=settings.outbox_refused_seconds,
    )
    watch = _Watch(upkeep, settings.outbox_warn_seconds)

    async def work() -> None:
        await _until_passed(migrated, process.stopping)
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(listen(settings.postgres_session_dsn, relay.wake)),
                tasks.create_task(_every(settings.outbox_poll_seconds, relay.look)),
                tasks.create_task(_every(WATCH_EVERY_SECONDS, watch.look)),
            ]
            await relay.run(process.stopping)
            for task in beside:
                task.cancel()

    working = asyncio.create_task(work())
    # A relay that fails must not go on looking healthy.
    working.add_done_callback(lambda _: process.stop())
    try:
        await process.serve(settings, lambda _: None, [], ready=[migrated, *reachable])
    finally:
        process.stop()
        await working


async def _sink(process: Process, settings: RelaySettings) -> tuple[Sink, Sequence[Check]]:
    if settings.kafka_brokers:
        producer = await process.enter(kafka.producer(settings, patient=True))
        return producer, [producer.check]
    if settings.celebrity_threshold:
        raise ConfigurationError(f"{PREFIX}KAFKA_BROKERS: is empty, though {PREFIX}CELEBRITY_THRESHOLD is not 0")
    logger.warning("%sKAFKA_BROKERS is empty and everything is pulled: events are thrown away", PREFIX)
    return Nowhere(), []


async def listen(dsn: str, wake: Callable[..., None]) -> None:
    """Wake the shards that are notified of, and all of them whenever notifications may have been missed."""

    def heard(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        wake(int(str(payload)))

    while True:
        try:
            connection = await asyncpg.connect(dsn, timeout=LISTEN_CHECK_SECONDS)
            try:
                await connection.add_listener(CHANNEL, heard)
                wake()
                await _until_dead(connection)
            finally:
                connection.terminate()
        except _CONNECTION_FAILS as error:
            logger.warning("no notifications from the outbox: %s", str(error) or type(error).__name__)
        await asyncio.sleep(RETRY_SECONDS)


async def _until_dead(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    closed = asyncio.Event()
    connection.add_termination_listener(lambda _: closed.set())
    while not closed.is_set():
        await connection.execute("SELECT 1", timeout=LISTEN_CHECK_SECONDS)
        await _until(closed, LISTEN_CHECK_SECONDS)


class _Watch:
    """Tells what waits in the outbox, and warns of what waits too long. Every relay tells the same of all of it."""

    def __init__(self, database: Database, warn_seconds: float) -> None:
        self._database = database
        self._warn_seconds = warn_seconds
        self._events = telemetry.Reading(
            "feed.outbox.events", unit="{event}", description="Events that wait in the outbox."
        )
        self._oldest = telemetry.Reading(
            "feed.outbox.oldest.age", unit="s", description="How long the oldest event in the outbox has waited."
        )
        self._set_aside = telemetry.Reading(
            "feed.outbox.set_aside", unit="{event}", description="Events that Kafka refuses, set aside for an operator."
        )

    async def look(self) -> None:
        backlog = await outbox.backlog(self._database)
        self._events.set(backlog.rows)
        self._oldest.set(backlog.oldest_age_ms / 1000)
        self._set_aside.set(backlog.set_aside)
        if backlog.oldest_age_ms > self._warn_seconds * 1000:
            logger.warning("events wait in the outbox", extra=backlog._asdict())


async def _every(seconds: float, action: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await action()
        except NOT_NOW as error:
            logger.debug("not now: %s", error)
        await asyncio.sleep(seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _until(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _until_passed(check: Check, stopping: asyncio.Event) -> None:
    passed = False
    while not passed and not stopping.is_set():
        try:
            await check()
            passed = True
        except NOT_NOW:
            await _until(stopping, RETRY_SECONDS)
