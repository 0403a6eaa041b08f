"""A viewer's activity is told once a day, behind the read, and never at its cost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from feedkit.errors import Unavailable
from timeline_service import notes
from timeline_service.activity import SECONDS_A_DAY, Activity
from timeline_service.notes import WORKERS

from .polling import until


class Graph:
    """Is told of activity; fails as often as it is told to, and answers only while `open`."""

    def __init__(self, failures: int = 0) -> None:
        self.told: list[int] = []
        self.failures = failures
        self.open = asyncio.Event()
        self.open.set()

    async def record(self, viewer_id: int) -> None:
        """Take note of one viewer."""
        await self.open.wait()
        self.told.append(viewer_id)
        if self.failures:
            self.failures -= 1
            raise Unavailable.of_dependency("graph")


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 20_000.0 * SECONDS_A_DAY

    def __call__(self) -> float:
        return self.now


def activity_of(
    record: Callable[[int], Awaitable[None]],
    clock: Clock | None = None,
    remembered: int = 100,
    keep: Callable[[int], Awaitable[None]] | None = None,
) -> Activity:
    """An activity with a small memory."""
    return Activity(record, keep or Graph().record, clock or Clock(), remembered=remembered)


async def test_a_viewer_is_told_of_once_a_day() -> None:
    graph, clock = Graph(), Clock()
    async with activity_of(graph.record, clock) as activity:
        for viewer in (1, 2, 1, 2, 1):
            activity.seen(viewer)
        clock.now += SECONDS_A_DAY - 1
        activity.seen(1)
    assert sorted(graph.told) == [1, 2]


async def test_a_viewer_is_told_of_again_the_next_day() -> None:
    graph, clock = Graph(), Clock()
    async with activity_of(graph.record, clock) as activity:
        activity.seen(1)
        await until(lambda: len(graph.told) == 1)
        clock.now += SECONDS_A_DAY
        activity.seen(1)
    assert graph.told == [1, 1]


async def test_a_failure_is_made_up_for_by_the_next_read() -> None:
    graph = Graph(failures=1)
    activity = activity_of(graph.record)
    async with activity:
        activity.seen(1)
    async with activity:
        activity.seen(1)
        activity.seen(1)
    assert graph.told == [1, 1]


async def test_a_fault_does_not_end_the_telling() -> None:
    told: list[int] = []

    async def record(viewer_id: int) -> None:
        told.append(viewer_id)
        if viewer_id <= WORKERS:
            raise ValueError("unforeseen")

    async with activity_of(record) as activity:
        for viewer in range(1, WORKERS + 2):
            activity.seen(viewer)
    assert sorted(told) == list(range(1, WORKERS + 2))


async def test_a_graph_that_hangs_does_not_delay_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "WAITING", 10)
    graph = Graph()
    graph.open.clear()
    async with activity_of(graph.record, remembered=1000) as activity:
        for viewer in range(1, 100):
            activity.seen(viewer)
        graph.open.set()
    assert len(graph.told) == 10, "what does not fit into the queue is left to the next read"


async def test_memory_is_bounded_by_forgetting_the_oldest() -> None:
    graph = Graph()
    async with activity_of(graph.record, remembered=2) as activity:
        for viewer in (1, 2, 3):
            activity.seen(viewer)
        await until(lambda: len(graph.told) == 3)
        for viewer in (3, 2, 1):
            activity.seen(viewer)
    assert sorted(graph.told) == [1, 1, 2, 3]


async def test_a_note_that_waits_is_not_made_twice() -> None:
    graph, clock = Graph(), Clock()
    async with activity_of(graph.record, clock) as activity:
        activity.seen(1)
        clock.now += SECONDS_A_DAY
        activity.seen(1)
    assert graph.told == [1]


async def test_notes_under_way_are_finished_at_the_end() -> None:
    graph = Graph()
    async with activity_of(graph.record) as activity:
        for viewer in range(1, 50):
            activity.seen(viewer)
    assert sorted(graph.told) == list(range(1, 50))


async def test_the_end_does_not_wait_long_for_a_graph_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "FINISH_SECONDS", 0.05)
    graph = Graph()
    graph.open.clear()
    async with asyncio.timeout(2):
        async with activity_of(graph.record) as activity:
            activity.seen(1)
    assert graph.told == []
    assert len(asyncio.all_tasks()) == 1, "no worker outlives its owner"


# --- the timeline's life ---------------------------------------------------------------------------------------------


async def test_a_timeline_lives_on_only_after_the_activity_is_recorded() -> None:
    told: list[str] = []

    async def record(viewer_id: int) -> None:
        told.append(f"record {viewer_id}")

    async def keep(viewer_id: int) -> None:
        told.append(f"keep {viewer_id}")

    async with activity_of(record, keep=keep) as activity:
        activity.seen(1)
    assert told == ["record 1", "keep 1"]


async def test_a_timeline_does_not_live_on_where_the_activity_is_not_recorded() -> None:
    graph, kept = Graph(failures=1), Graph()
    async with activity_of(graph.record, keep=kept.record) as activity:
        activity.seen(1)
    assert kept.told == []


async def test_a_timeline_that_cannot_be_kept_is_kept_the_next_day() -> None:
    graph, kept, clock = Graph(), Graph(failures=1), Clock()
    async with activity_of(graph.record, clock, keep=kept.record) as activity:
        activity.seen(1)
        await until(lambda: len(kept.told) == 1)
        activity.seen(1)
        await asyncio.sleep(0)
        assert graph.told == [1], "for no more calls of a graph that has to serve reads alone"
        clock.now += SECONDS_A_DAY
        activity.seen(1)
    assert (graph.told, kept.told) == ([1, 1], [1, 1])
