"""Leases of worker numbers in a real PostgreSQL."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import uuid4

import asyncpg
import pytest
from feedkit.cursor import created_at_ms
from feedkit.errors import Unavailable
from feedkit.postgres import Database
from post_service.worker_lease import Claim, Grant, Ids, Reading, Terms, read_clocks
from post_service.worker_store import WorkerStore

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
OpenDatabase = Callable[..., Awaitable[Database]]

WORKERS = 1024
TERMS = Terms(lease_ms=15_000, max_skew_ms=5_000, max_backward_ms=100)


def claim(worker: int | None = None, *, ahead_ms: int = 0, like: Claim | None = None) -> Claim:
    holder = like.holder if like else uuid4()
    return Claim(holder, worker, read_clocks().wall_ms + ahead_ms, TERMS.lease_ms, TERMS.max_skew_ms)


async def granted(table: WorkerStore, wish: Claim) -> Grant:
    grant = await table.claim(wish)
    assert grant is not None
    return grant


@pytest.fixture
def table(database: Database) -> WorkerStore:
    return WorkerStore(database)


async def test_a_new_number_reserves_one_lease_ahead(table: WorkerStore) -> None:
    wish = claim()
    grant = await granted(table, wish)
    assert (grant.floor_ms, grant.ceiling_ms) == (0, wish.now_ms + TERMS.lease_ms)
    assert abs(grant.table_ms - wish.now_ms) < 2_000


async def test_as_many_as_there_are_numbers_hold_one_each_and_the_next_gets_none(table: WorkerStore) -> None:
    grants = await asyncio.gather(*(table.claim(claim()) for _ in range(WORKERS + 6)))
    workers = [grant.worker for grant in grants if grant]
    assert sorted(workers) == list(range(WORKERS))


async def test_a_number_is_not_taken_while_its_lease_lasts(table: WorkerStore, sql: Sql) -> None:
    await sql.execute("DELETE FROM id_workers WHERE worker > 0")
    await granted(table, claim())
    assert await table.claim(claim(ahead_ms=60_000)) is None


async def test_a_number_is_not_taken_before_its_ceiling_has_passed_by_ones_own_clock(
    table: WorkerStore, sql: Sql
) -> None:
    await sql.execute("DELETE FROM id_workers WHERE worker > 0")
    await granted(table, claim())
    await sql.execute("UPDATE id_workers SET expires_at = now()")
    assert await table.claim(claim()) is None
    assert await table.claim(claim(ahead_ms=TERMS.lease_ms)) is not None


async def test_whoever_takes_a_number_over_begins_at_the_last_ceiling(table: WorkerStore, sql: Sql) -> None:
    await sql.execute("DELETE FROM id_workers WHERE worker > 0")
    first = await granted(table, claim())
    await sql.execute("UPDATE id_workers SET expires_at = now()")
    second = await granted(table, claim(ahead_ms=TERMS.lease_ms + 1_000))
    assert second.floor_ms == first.ceiling_ms


async def test_the_number_unused_for_longest_is_taken_first(table: WorkerStore, sql: Sql) -> None:
    await sql.execute("UPDATE id_workers SET ceiling_ms = 1000 - worker")
    assert (await granted(table, claim())).worker == WORKERS - 1


async def test_a_lease_that_ran_out_is_prolonged_if_nobody_took_the_number(table: WorkerStore, sql: Sql) -> None:
    wish = claim()
    grant = await granted(table, wish)
    await sql.execute("UPDATE id_workers SET expires_at = now()")
    assert await table.claim(claim(grant.worker, like=wish)) is not None


async def test_a_lease_is_not_prolonged_once_another_holds_the_number(table: WorkerStore, sql: Sql) -> None:
    wish = claim()
    grant = await granted(table, wish)
    await sql.execute("UPDATE id_workers SET holder = $1 WHERE worker = $2", uuid4(), grant.worker)
    assert await table.claim(claim(grant.worker, like=wish)) is None


async def test_a_ceiling_is_never_lowered_by_a_clock_that_stepped_back(table: WorkerStore) -> None:
    wish = claim()
    first = await granted(table, wish)
    second = await granted(table, claim(first.worker, ahead_ms=-3_600_000, like=wish))
    assert second.ceiling_ms == first.ceiling_ms


async def test_a_clock_far_ahead_cannot_use_up_the_future_of_a_number(table: WorkerStore) -> None:
    grant = await granted(table, claim(ahead_ms=3_600_000))
    assert grant.ceiling_ms - grant.table_ms == TERMS.lease_ms + TERMS.max_skew_ms


async def test_a_late_release_touches_no_lease_but_its_own(table: WorkerStore, sql: Sql) -> None:
    wish = claim()
    grant = await granted(table, wish)
    successor = uuid4()
    await sql.execute("UPDATE id_workers SET holder = $1 WHERE worker = $2", successor, grant.worker)
    await table.release(claim(grant.worker, like=wish), 5)
    row = await sql.fetchrow("SELECT holder, ceiling_ms FROM id_workers WHERE worker = $1", grant.worker)
    assert row == (successor, grant.ceiling_ms)


async def test_several_processes_that_come_and_go_never_make_an_id_twice(open_database: OpenDatabase, sql: Sql) -> None:
    # Fewer numbers than processes, so that each number passes through many hands.
    await sql.execute("DELETE FROM id_workers WHERE worker >= 5")
    table = WorkerStore(await open_database(postgres_pool_size=10))
    made: list[int] = []

    async def live(lives: int) -> None:
        for _ in range(lives):
            async with (ids := Ids(table, TERMS)).kept():
                await until_ready(ids)
                mine = [await ids.next_id() for _ in range(2_000)]
            assert mine == sorted(mine)
            made.extend(mine)

    await asyncio.gather(*(live(5) for _ in range(8)))
    assert len(set(made)) == len(made) == 80_000


async def test_one_process_makes_more_ids_in_a_millisecond_than_there_are_by_waiting_for_the_next(ids: Ids) -> None:
    made = [await ids.next_id() for _ in range(20_000)]
    assert made == sorted(set(made))
    assert created_at_ms(made[-1]) <= time.time_ns() // 1_000_000


async def test_a_process_whose_clock_is_wrong_makes_no_ids_and_says_why(database: Database) -> None:
    def ahead() -> Reading:
        now = read_clocks()
        return now._replace(wall_ms=now.wall_ms + 6_000)

    ids = Ids(WorkerStore(database), TERMS, ahead)
    await ids.renew()
    with pytest.raises(Unavailable, match="ahead of the database's"):
        await ids.check()
    with pytest.raises(Unavailable):
        await ids.next_id()


async def test_a_process_that_found_no_number_gets_the_first_that_is_released(
    open_database: OpenDatabase, sql: Sql
) -> None:
    await sql.execute("DELETE FROM id_workers WHERE worker > 0")
    table = WorkerStore(await open_database())
    surplus = Ids(table, TERMS)
    async with Ids(table, TERMS).kept():
        async with asyncio.timeout(10):
            while True:
                if await sql.fetchval("SELECT holder FROM id_workers") is not None:
                    break
                await asyncio.sleep(0.01)
        assert not await surplus.renew()
        with pytest.raises(Unavailable, match="no worker number is free"):
            await surplus.next_id()
    async with surplus.kept():
        await until_ready(surplus)
        assert await surplus.next_id()


async def until_ready(ids: Ids) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                return await ids.check()
            except Unavailable:
                await asyncio.sleep(0.01)
