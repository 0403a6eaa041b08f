"""Reads of the truth: few for many who want the same, and never one that began too early."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from feedkit.errors import DeadlineExceeded, FeedError, Internal, Overloaded, Unavailable
from hydrate_service.truth import SharedReads
from hypothesis import given
from hypothesis import strategies as st

NOT_NOW = [Unavailable.of_dependency("x"), Overloaded("OVERLOADED", "full"), DeadlineExceeded()]
ABSENT = 99
"""An id of which the truth has nothing."""


@dataclass
class Pending:
    """A call that waits for the test to let it go on."""

    ids: set[int]
    goes_on: asyncio.Future[None]

    @classmethod
    def of(cls, ids: Collection[int]) -> "Pending":
        return cls(set(ids), asyncio.get_running_loop().create_future())


class Truth:
    """A truth whose every value is its version, and a cache with leases. Both go on when they are told to."""

    def __init__(self, *, most: int = 100, seconds: float = 60) -> None:
        self.version = 0
        self.leases: list[Pending] = []
        self.reads: list[Pending] = []
        self.fills: list[tuple[set[int], dict[int, int]]] = []
        self.free: set[int] | None = None
        """Ids whose leases are free; None: all are."""
        self.refusal: FeedError | None = None
        """How the cache answers."""
        self.patience: float | FeedError = seconds
        self.shared = SharedReads(self.read, self, self.wait_at_most, most=most)

    def wait_at_most(self) -> float:
        if isinstance(self.patience, FeedError):
            raise self.patience
        return self.patience

    async def take(self, ids: Collection[int]) -> Mapping[int, bytes]:
        pending = Pending.of(ids)
        self.leases.append(pending)
        await pending.goes_on
        if self.refusal:
            raise self.refusal
        return {id: b"token" for id in ids if self.free is None or id in self.free}

    async def read(self, ids: Collection[int]) -> Mapping[int, int]:
        # The oldest that a read may see is what is there when it begins.
        found = {id: self.version for id in ids if id != ABSENT}
        pending = Pending.of(ids)
        self.reads.append(pending)
        await pending.goes_on
        return found

    async def fill(self, tokens: Mapping[int, bytes], found: Mapping[int, int]) -> None:
        if self.refusal:
            raise self.refusal
        self.fills.append((set(tokens), dict(found)))

    def wants(self, *ids: int) -> "asyncio.Task[dict[int, int | None]]":
        return asyncio.create_task(self.shared.load(ids))


Answer: TypeAlias = "asyncio.Task[dict[int, int | None]]"


async def rest() -> None:
    """Let everybody run until all wait for the test."""
    for _ in range(12):
        await asyncio.sleep(0)


async def go_on(pending: list[Pending]) -> None:
    pending.pop(0).goes_on.set_result(None)
    await rest()


async def test_what_is_there_and_what_is_not_is_told() -> None:
    truth = Truth()
    answer = truth.wants(1, ABSENT)
    await rest()
    await go_on(truth.leases)
    await go_on(truth.reads)
    assert await answer == {1: 0, ABSENT: None}


async def test_the_leases_are_there_before_the_truth_is_read_and_the_fill_comes_behind() -> None:
    truth = Truth()
    answer = truth.wants(1, 2)
    await rest()
    assert ([pending.ids for pending in truth.leases], truth.reads) == ([{1, 2}], [])
    await go_on(truth.leases)
    assert truth.fills == []
    await go_on(truth.reads)
    assert truth.fills == [({1, 2}, {1: 0, 2: 0})]
    assert await answer == {1: 0, 2: 0}


async def test_what_somebody_else_fills_is_read_and_not_filled() -> None:
    truth = Truth()
    truth.free = {2}
    answer = truth.wants(1, 2)
    await rest()
    await go_on(truth.leases)
    await go_on(truth.reads)
    assert truth.fills == [({2}, {1: 0, 2: 0})]
    assert await answer == {1: 0, 2: 0}


async def test_without_a_free_lease_nothing_is_filled() -> None:
    truth = Truth()
    truth.free = set()
    answer = truth.wants(1)
    await rest()
    await go_on(truth.leases)
    await go_on(truth.reads)
    assert (truth.fills, await answer) == ([], {1: 0})


# --- sharing -----------------------------------------------------------------------------------------------------------


async def test_who_comes_before_a_read_has_started_shares_it() -> None:
    truth = Truth()
    first = [truth.wants(1, 2) for _ in range(20)]
    await rest()
    second = [truth.wants(2) for _ in range(20)]
    await rest()
    await go_on(truth.leases)
    assert [pending.ids for pending in truth.reads] == [{1, 2}]
    assert truth.leases == []
    await go_on(truth.reads)
    assert await asyncio.gather(*first, *second) == [{1: 0, 2: 0}] * 20 + [{2: 0}] * 20


async def test_what_is_wanted_while_leases_are_taken_gathers_into_one_read() -> None:
    truth = Truth()
    answers = [truth.wants(1)]
    await rest()
    answers += [truth.wants(2), truth.wants(3), truth.wants(2, 1)]
    await rest()
    await go_on(truth.leases)
    assert [pending.ids for pending in truth.leases] == [{2, 3}]
    await go_on(truth.leases)
    assert [pending.ids for pending in truth.reads] == [{1}, {2, 3}]
    await go_on(truth.reads)
    await go_on(truth.reads)
    assert await asyncio.gather(*answers) == [{1: 0}, {2: 0}, {3: 0}, {2: 0, 1: 0}]


async def test_who_comes_after_a_read_has_started_does_not_share_it() -> None:
    truth = Truth()
    early = truth.wants(1)
    await rest()
    await go_on(truth.leases)
    truth.version = 1  # the change was acknowledged while the first read was under way
    late = truth.wants(1)
    await rest()
    await go_on(truth.leases)
    assert len(truth.reads) == 2
    await go_on(truth.reads)
    await go_on(truth.reads)
    assert (await early, await late) == ({1: 0}, {1: 1})


async def test_a_read_is_not_larger_than_it_may_be() -> None:
    truth = Truth(most=3)
    answer = truth.wants(*range(1, 8))
    for _ in range(3):
        await rest()
        await go_on(truth.leases)
    assert [pending.ids for pending in truth.reads] == [{1, 2, 3}, {4, 5, 6}, {7}]
    for _ in range(3):
        await go_on(truth.reads)
    assert await answer == dict.fromkeys(range(1, 8), 0)


async def test_a_request_that_is_cancelled_takes_nobody_with_it() -> None:
    truth = Truth()
    first = truth.wants(1)
    await rest()
    second = truth.wants(1)
    await rest()
    first.cancel()
    await rest()
    await go_on(truth.leases)
    await go_on(truth.reads)
    assert await second == {1: 0}
    assert truth.fills == [({1}, {1: 0})]


async def test_leaving_waits_for_what_is_under_way() -> None:
    truth = Truth()
    async with truth.shared:
        truth.wants(1)
        await rest()
        await go_on(truth.leases)
        asyncio.get_running_loop().call_soon(truth.reads[0].goes_on.set_result, None)
    assert truth.fills == [({1}, {1: 0})]


# --- what cannot be had now --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", NOT_NOW, ids=lambda error: type(error).__name__)
async def test_without_the_cache_the_truth_is_read_all_the_same(refusal: FeedError) -> None:
    truth = Truth()
    truth.refusal = refusal
    answer = truth.wants(1)
    await rest()
    await go_on(truth.leases)
    await go_on(truth.reads)
    assert await answer == {1: 0}


async def test_a_cache_that_dies_before_the_fill_does_no_harm() -> None:
    truth = Truth()
    async with truth.shared:
        answer = truth.wants(1)
        await rest()
        await go_on(truth.leases)
        truth.refusal = Unavailable.of_dependency("redis")
        await go_on(truth.reads)
        assert await answer == {1: 0}


@pytest.mark.parametrize("failure", NOT_NOW, ids=lambda error: type(error).__name__)
async def test_what_failed_is_left_out_and_the_rest_is_told(failure: FeedError) -> None:
    truth = Truth(most=1)
    answer = truth.wants(1, 2)
    for _ in range(2):
        await rest()
        await go_on(truth.leases)
    truth.reads.pop(0).goes_on.set_exception(failure)
    await go_on(truth.reads)
    assert await answer == {2: 0}
    assert truth.fills == [({2}, {2: 0})]


async def test_a_read_after_one_that_failed_is_a_new_one() -> None:
    truth = Truth()
    first = truth.wants(1)
    await rest()
    await go_on(truth.leases)
    truth.reads.pop().goes_on.set_exception(NOT_NOW[0])
    assert await first == {}
    second = truth.wants(1)
    await rest()
    await go_on(truth.leases)
    await go_on(truth.reads)
    assert await second == {1: 0}


async def test_a_fault_is_told_to_all_who_wanted_it() -> None:
    truth = Truth()
    answers = [truth.wants(1), truth.wants(1)]
    await rest()
    await go_on(truth.leases)
    truth.reads.pop().goes_on.set_exception(Internal("broken"))
    for answer in answers:
        with pytest.raises(Internal, match="broken"):
            await answer


async def test_what_does_not_come_in_time_is_left_out_and_fills_the_cache_later() -> None:
    truth = Truth(seconds=0.01)
    answer = truth.wants(1)
    await rest()
    await go_on(truth.leases)
    assert await answer == {}
    await go_on(truth.reads)
    assert truth.fills == [({1}, {1: 0})]


async def test_a_request_without_any_time_left_waits_for_nothing() -> None:
    truth = Truth()
    truth.patience = DeadlineExceeded()
    assert await truth.wants(1) == {}


# --- whatever the order of things --------------------------------------------------------------------------------------


steps = st.one_of(
    st.sets(st.integers(1, 6), min_size=1).map(lambda ids: ("want", ids)),
    st.sampled_from([("lease", set[int]()), ("read", set[int]()), ("change", set[int]())]),
    st.integers(0, 5).map(lambda place: ("cancel", {place})),
)


@given(st.lists(steps, max_size=40), st.integers(1, 6))
async def test_nobody_is_told_less_than_was_true_when_they_asked(
    programme: list[tuple[str, set[int]]], most: int
) -> None:
    truth = Truth(most=most)
    asked: list[tuple[int, set[int], Answer]] = []
    for step, numbers in programme:
        match step:
            case "want":
                asked.append((truth.version, numbers, truth.wants(*numbers)))
            case "lease" if truth.leases:
                await go_on(truth.leases)
            case "read" if truth.reads:
                await go_on(truth.reads)
            case "change":
                truth.version += 1
            case "cancel" if asked:
                asked[numbers.copy().pop() % len(asked)][2].cancel()
            case _:
                pass
        await rest()
    while truth.leases or truth.reads:
        await go_on(truth.leases or truth.reads)
    for version, ids, answer in asked:
        if not answer.cancelled():
            found = await answer
            assert found.keys() == ids
            assert all(value is not None and value >= version for value in found.values())
