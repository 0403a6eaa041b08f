"""Recents are read once for all who need them, never older than they may be, and never past an announcement."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
from timeline_service.author_posts import AuthorPosts
from timeline_service.recents import Recents

from .world import STALENESS, Clock

OLD, NEW = AuthorPosts((1,), 0), AuthorPosts((1, 2), 0)


class Cache:
    """Gives every author's list as it is when the reading begins, once the reading may end."""

    def __init__(self) -> None:
        self.now = OLD
        self.reads: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def read(self, author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        """Read."""
        self.reads.append(list(author_ids))
        posts = self.now
        await self.open.wait()
        return dict.fromkeys(author_ids, posts)


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


def recents_of(
    read: Callable[[Sequence[int]], Awaitable[Mapping[int, AuthorPosts]]], clock: Clock, remembered: int = 10
) -> Recents:
    """Recents with a small memory."""

    async def reading(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        return await read(author_ids)

    return Recents(reading, clock, staleness=STALENESS, remembered=remembered)


async def begun(task: "asyncio.Task[dict[int, AuthorPosts]]") -> None:
    """Let a task come to where it waits."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()


async def test_what_was_read_is_known_until_it_is_too_old(clock: Clock) -> None:
    recents = recents_of(Cache().read, clock)
    assert recents.known([1, 2]) == {}
    await recents.get([1])
    clock.now += STALENESS - 0.01
    assert recents.known([1, 2]) == {1: OLD}
    clock.now += 0.01
    assert recents.known([1, 2]) == {}


async def test_its_age_counts_from_the_beginning_of_the_reading(clock: Clock) -> None:
    cache = Cache()
    cache.open.clear()
    recents = recents_of(cache.read, clock)
    reading = asyncio.create_task(recents.get([1]))
    await begun(reading)
    clock.now += STALENESS
    cache.open.set()
    assert await reading == {1: OLD}
    assert recents.known([1]) == {}


async def test_readers_at_the_same_time_share_one_reading(clock: Clock) -> None:
    cache = Cache()
    recents = recents_of(cache.read, clock)
    assert await asyncio.gather(recents.get([1, 2]), recents.get([2, 3])) == [{1: OLD, 2: OLD}, {2: OLD, 3: OLD}]
    assert cache.reads == [[1, 2], [3]]


async def test_a_reading_that_began_too_long_ago_is_not_joined(clock: Clock) -> None:
    cache = Cache()
    cache.open.clear()
    recents = recents_of(cache.read, clock)
    first = asyncio.create_task(recents.get([1]))
    await begun(first)
    clock.now += STALENESS
    cache.now = NEW
    second = asyncio.create_task(recents.get([1]))
    await begun(second)
    cache.open.set()
    assert (await first, await second) == ({1: OLD}, {1: NEW})
    assert recents.known([1]) == {1: NEW}


async def test_an_announcement_drops_what_is_kept_of_this_author_alone(clock: Clock) -> None:
    recents = recents_of(Cache().read, clock)
    await recents.get([1, 2])
    recents.changed(1)
    assert recents.known([1, 2]) == {2: OLD}


@pytest.mark.parametrize("gap", [False, True], ids=["announcement", "gap"])
async def test_what_was_being_read_at_an_announcement_serves_no_later_reader(clock: Clock, gap: bool) -> None:
    cache = Cache()
    cache.open.clear()
    recents = recents_of(cache.read, clock)
    before = asyncio.create_task(recents.get([1]))
    await begun(before)
    cache.now = NEW
    if gap:
        recents.forget_all()
    else:
        recents.changed(1)
    after = asyncio.create_task(recents.get([1]))
    await begun(after)
    cache.open.set()
    assert (await before, await after) == ({1: OLD}, {1: NEW})
    assert recents.known([1]) == {1: NEW}


async def test_a_gap_drops_everything(clock: Clock) -> None:
    recents = recents_of(Cache().read, clock)
    await recents.get([1, 2])
    recents.forget_all()
    assert recents.known([1, 2]) == {}


async def test_memory_is_bounded_by_forgetting_the_oldest(clock: Clock) -> None:
    recents = recents_of(Cache().read, clock, remembered=2)
    await recents.get([1])
    await recents.get([2])
    recents.changed(1)
    await recents.get([1])
    await recents.get([3])
    assert recents.known([1, 2, 3]).keys() == {1, 3}


async def test_a_reader_who_gives_up_takes_nothing_away_from_others(clock: Clock) -> None:
    cache = Cache()
    cache.open.clear()
    recents = recents_of(cache.read, clock)
    impatient, patient = (asyncio.create_task(recents.get([1])) for _ in range(2))
    await begun(patient)
    impatient.cancel()
    await asyncio.wait([impatient])
    cache.open.set()
    assert await patient == {1: OLD}
    assert cache.reads == [[1]]


async def test_lists_that_cannot_be_had_are_not_kept(clock: Clock) -> None:
    async def read(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        return {1: OLD}

    recents = recents_of(read, clock)
    assert await recents.get([1, 2]) == {1: OLD}
    assert recents.known([1, 2]) == {1: OLD}


async def test_a_fault_is_raised_to_all_who_wait_and_forgotten(clock: Clock) -> None:
    faults = iter([ValueError("unforeseen")])

    async def read(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        for fault in faults:
            raise fault
        return {1: OLD}

    recents = recents_of(read, clock)
    outcomes = await asyncio.gather(recents.get([1]), recents.get([1]), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError, ValueError]
    assert await recents.get([1]) == {1: OLD}
