"""Leases of worker numbers: no id twice, whatever clocks, crashes, expiries and lost answers do."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from feedkit.cursor import EPOCH_MS, created_at_ms
from feedkit.errors import Unavailable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from post_service.snowflake import Early
from post_service.worker_lease import Claim, Grant, Ids, Reading, Terms, WorkerLease

TERMS = Terms(lease_ms=15_000, max_skew_ms=5_000, max_backward_ms=100)
START_MS = EPOCH_MS + 365 * 86_400_000


@dataclass
class Row:
    holder: UUID | None = None
    expires_ms: int = 0
    ceiling_ms: int = 0


@dataclass
class Table:
    """What the SQL of `worker_store` does, without a database. Its clock is an argument."""

    rows: list[Row]

    def claim(self, claim: Claim, now_ms: int) -> Grant | None:
        worker = self._free(claim, now_ms) if claim.worker is None else claim.worker
        if worker is None or (claim.worker is not None and self.rows[worker].holder != claim.holder):
            return None
        row = self.rows[worker]
        floor_ms = row.ceiling_ms
        row.holder, row.expires_ms = claim.holder, now_ms + claim.lease_ms
        reserved_ms = min(claim.now_ms + claim.lease_ms, now_ms + claim.lease_ms + claim.max_skew_ms)
        row.ceiling_ms = max(floor_ms, reserved_ms)
        return Grant(worker, floor_ms, row.ceiling_ms, now_ms)

    def _free(self, claim: Claim, now_ms: int) -> int | None:
        free = [
            (row.ceiling_ms, worker)
            for worker, row in enumerate(self.rows)
            if (row.holder is None or row.expires_ms <= now_ms) and row.ceiling_ms <= claim.now_ms
        ]
        return min(free)[1] if free else None

    def release(self, claim: Claim, unused_ms: int) -> None:
        row = self.rows[claim.worker or 0]
        if row.holder == claim.holder:
            row.holder, row.ceiling_ms = None, unused_ms


@dataclass
class Simulated:
    """A process: its lease, its clock's error, and the one question that it is waiting for."""

    lease: WorkerLease = field(default_factory=lambda: WorkerLease(TERMS))
    error_ms: int = 0
    holder: UUID | None = None
    asked: tuple[Claim, Reading] | None = None
    answer: tuple[Grant | None] | None = None


class Mesh:
    """Two processes that want the same worker number, or find one more; and all that may happen to them."""

    def __init__(self, numbers: int) -> None:
        self.true_ms = START_MS
        self.table_error_ms = 0
        self.table = Table([Row() for _ in range(numbers)])
        self.processes = [Simulated(), Simulated()]
        self.undone: list[Callable[[], Any]] = []
        self.ids: dict[int, dict[UUID | None, list[int]]] = {}

    def read(self, process: Simulated) -> Reading:
        return Reading(self.true_ms + process.error_ms, self.true_ms / 1000)

    def time_passes(self, _: int, ms: int) -> None:
        self.true_ms += abs(ms)

    def clock_steps(self, number: int, ms: int) -> None:
        self.processes[number].error_ms += ms

    def clock_is_put_right(self, number: int, _: int) -> None:
        self.processes[number].error_ms = 0

    def clock_of_the_database_steps(self, _: int, ms: int) -> None:
        self.table_error_ms = 0 if self.table_error_ms else ms

    def asks(self, number: int, _: int) -> None:
        # It may have asked before and given up waiting; that question may still be answered, to nobody.
        process = self.processes[number]
        sent = self.read(process)
        asked = process.asked = (process.lease.claim(sent), sent)
        process.answer = None

        def execute() -> None:
            grant = self.table.claim(asked[0], self.true_ms + self.table_error_ms)
            if grant is not None:
                self.ids.setdefault(grant.worker, {}).setdefault(asked[0].holder, [])
            if process.asked is asked:
                process.answer = (grant,)

        self.undone.append(execute)

    def database_works(self, _: int, which: int) -> None:
        if self.undone:
            self.undone.pop(which % len(self.undone))()

    def answer_arrives(self, number: int, _: int) -> None:
        process = self.processes[number]
        if process.asked is None or process.answer is None:
            return
        (claim, sent), (grant,) = process.asked, process.answer
        process.asked = process.answer = None
        if grant is None:
            process.lease.refused(claim)
        else:
            process.lease.granted(claim, grant, sent, self.read(process))
            process.holder = claim.holder

    def asks_and_is_answered_at_once(self, number: int, _: int) -> None:
        self.asks(number, 0)
        self.database_works(0, -1)
        self.answer_arrives(number, 0)

    def crashes_and_starts_anew(self, number: int, _: int) -> None:
        self.processes[number] = Simulated(error_ms=self.processes[number].error_ms)

    def stops_in_order(self, number: int, soon: int) -> None:
        held = self.processes[number].lease.give_up()
        self.crashes_and_starts_anew(number, 0)
        if held is not None:
            self.undone.append(lambda: self.table.release(*held))
            if soon >= 0:
                self.undone.pop()()

    def makes_an_id(self, number: int, _: int) -> None:
        process = self.processes[number]
        try:
            post_id = process.lease.take(self.read(process))
        except (Unavailable, Early):
            return
        self.note(process.holder, post_id)

    def note(self, holder: UUID | None, post_id: int) -> None:
        """Check more than that no id comes twice, which would take a rare chance: every lease of a number goes on above
        all ids of those granted before it."""
        of_worker = self.ids[(post_id >> 12) & 1023]
        of_worker[holder].append(post_id)
        in_order_of_grants = [made for ids in of_worker.values() for made in ids]
        assert in_order_of_grants == sorted(set(in_order_of_grants))


DAILY = [Mesh.makes_an_id, Mesh.asks_and_is_answered_at_once, Mesh.time_passes]
SOMETIMES = [Mesh.asks, Mesh.database_works, Mesh.answer_arrives, Mesh.clock_steps, Mesh.stops_in_order]
RARELY = [Mesh.crashes_and_starts_anew, Mesh.clock_is_put_right, Mesh.clock_of_the_database_steps]
EVENTS = st.tuples(
    st.sampled_from([*DAILY * 6, *SOMETIMES * 2, *RARELY]),
    st.integers(0, 1),
    st.sampled_from([0, 1, -60, 60, 1_000, -4_000, 4_000, 5_000, 16_000, -20_000, 20_000, 3_600_000]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.large_base_example])
@given(numbers=st.integers(1, 2), events=st.lists(EVENTS, min_size=60, max_size=120))
def test_no_two_leases_ever_make_ids_of_the_same_stretch_of_time(
    numbers: int, events: list[tuple[Callable[[Mesh, int, int], None], int, int]]
) -> None:
    mesh = Mesh(numbers)
    for event, number, ms in events:
        event(mesh, number, ms)


class Clocks:
    """Clocks that a test moves."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.monotonic = 1000.0

    def pass_ms(self, ms: int) -> None:
        self.wall_ms += ms
        self.monotonic += ms / 1000

    def read(self) -> Reading:
        return Reading(self.wall_ms, self.monotonic)


def leased(clocks: Clocks, *, answer_after_ms: int = 0, table_ahead_ms: int = 0) -> tuple[WorkerLease, Table]:
    lease, table = WorkerLease(TERMS), Table([Row()])
    renew(lease, table, clocks, answer_after_ms=answer_after_ms, table_ahead_ms=table_ahead_ms)
    return lease, table


def renew(
    lease: WorkerLease, table: Table, clocks: Clocks, *, answer_after_ms: int = 0, table_ahead_ms: int = 0
) -> None:
    sent = clocks.read()
    claim = lease.claim(sent)
    grant = table.claim(claim, clocks.wall_ms + table_ahead_ms)
    clocks.pass_ms(answer_after_ms)
    assert grant is not None
    lease.granted(claim, grant, sent, clocks.read())


def test_without_a_lease_there_are_no_ids() -> None:
    with pytest.raises(Unavailable) as refusal:
        WorkerLease(TERMS).take(Reading(START_MS, 0.0))
    assert refusal.value.reason == "IDS_UNAVAILABLE"


def test_a_lease_ends_by_the_holders_own_clock_counted_from_before_it_asked() -> None:
    clocks = Clocks()
    lease, _ = leased(clocks, answer_after_ms=4_000)
    clocks.monotonic += 10.999
    assert lease.problem(clocks.read()) is None
    clocks.monotonic += 0.002
    assert "run out" in str(lease.problem(clocks.read()))


def test_a_small_backward_step_is_no_problem_but_a_moments_wait() -> None:
    clocks = Clocks()
    lease, _ = leased(clocks)
    lease.take(clocks.read())
    clocks.wall_ms -= 50
    assert lease.problem(clocks.read()) is None
    with pytest.raises(Early) as early:
        lease.take(clocks.read())
    assert early.value.wait_ms == 50


@pytest.mark.parametrize("step_ms", [101, 4_000, 3_600_000])
def test_a_larger_backward_step_stops_ids_until_the_clock_has_caught_up(step_ms: int) -> None:
    clocks = Clocks()
    lease, _ = leased(clocks)
    clocks.wall_ms -= step_ms
    with pytest.raises(Unavailable):
        lease.take(clocks.read())
    clocks.wall_ms += step_ms
    assert created_at_ms(lease.take(clocks.read())) == START_MS


def test_a_forward_step_past_what_is_reserved_makes_no_id_of_the_future() -> None:
    clocks = Clocks()
    lease, _ = leased(clocks)
    clocks.wall_ms += 3_600_000
    with pytest.raises(Unavailable):
        lease.take(clocks.read())


def test_a_clock_that_was_far_ahead_for_a_while_works_again_once_it_is_right() -> None:
    clocks = Clocks()
    lease, table = leased(clocks)
    clocks.wall_ms += 3_600_000
    renew(lease, table, clocks, table_ahead_ms=-3_600_000)
    assert "ahead of the database's" in str(lease.problem(clocks.read()))
    clocks.wall_ms -= 3_600_000
    clocks.pass_ms(5_000)
    renew(lease, table, clocks)
    assert created_at_ms(lease.take(clocks.read())) == clocks.wall_ms


@pytest.mark.parametrize(("table_ahead_ms", "side"), [(5_001, "behind"), (-5_001, "ahead of")])
def test_a_clock_that_differs_too_much_from_the_databases_makes_no_ids(table_ahead_ms: int, side: str) -> None:
    clocks = Clocks()
    lease, _ = leased(clocks, table_ahead_ms=table_ahead_ms)
    assert side in str(lease.problem(clocks.read()))


def test_a_slow_answer_is_not_taken_for_a_wrong_clock() -> None:
    clocks = Clocks()
    lease, _ = leased(clocks, answer_after_ms=9_000, table_ahead_ms=9_000)
    assert lease.problem(clocks.read()) is None


def test_a_number_whose_ceiling_lies_ahead_is_not_taken_even_when_its_lease_has_run_out() -> None:
    clocks = Clocks()
    _, table = leased(clocks)
    clocks.pass_ms(14_000)
    claim = WorkerLease(TERMS).claim(clocks.read())
    assert table.claim(claim, START_MS + 60_000) is None


class SimulatedTable:
    """`WorkerTable` over `Table`, with the real clock."""

    def __init__(self, clocks: Callable[[], Reading]) -> None:
        self.table = Table([Row()])
        self._clocks = clocks

    async def claim(self, claim: Claim) -> Grant | None:
        return self.table.claim(claim, self._clocks().wall_ms)

    async def release(self, claim: Claim, unused_ms: int) -> None:
        self.table.release(claim, unused_ms)


async def test_a_small_backward_step_is_waited_out() -> None:
    clocks = Clocks()
    ids = Ids(SimulatedTable(clocks.read), TERMS, clocks.read)
    assert await ids.renew()
    first = await ids.next_id()
    clocks.wall_ms -= 40
    waiting = asyncio.create_task(ids.next_id())
    await asyncio.sleep(0)
    clocks.wall_ms += 40
    assert await waiting > first


async def test_an_orderly_stop_leaves_the_number_to_the_next_at_once() -> None:
    clocks = Clocks()
    table = SimulatedTable(clocks.read)
    async with (ids := Ids(table, TERMS, clocks.read)).kept():
        await until_ready(ids)
        last = await ids.next_id()
    clocks.pass_ms(1)
    successor = Ids(table, TERMS, clocks.read)
    assert await successor.renew()
    assert await successor.next_id() > last


async def test_after_the_end_no_id_is_made_any_more() -> None:
    clocks = Clocks()
    async with (ids := Ids(SimulatedTable(clocks.read), TERMS, clocks.read)).kept():
        await until_ready(ids)
    with pytest.raises(Unavailable):
        await ids.next_id()


async def until_ready(ids: Ids) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                return await ids.check()
            except Unavailable:
                await asyncio.sleep(0)
