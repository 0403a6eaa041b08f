"""The index of pulled authors is known as it was a moment ago, or not at all."""

import asyncio

import pytest
from feedkit.errors import Unavailable
from timeline_service.pulled_index import Changes, PulledIndex

from .polling import until
from .world import STALENESS, Clock


class Graph:
    """The truth: who entered, and who left by a negative number, in the order in which that happened."""

    def __init__(self) -> None:
        self.changed: list[int] = []
        self.asked: list[int] = []
        self.failures: list[Exception] = []
        self.hangs = False

    async def changes(self, since: int) -> Changes:
        """What has changed since a version."""
        self.asked.append(since)
        if self.hangs:
            await asyncio.Event().wait()
        if self.failures:
            raise self.failures.pop()
        news = list(dict.fromkeys(abs(change) for change in self.changed[since:]))
        inside = {abs(change): change > 0 for change in self.changed}
        entered = [author_id for author_id in news if inside[author_id]]
        return Changes(len(self.changed), entered, [author_id for author_id in news if not inside[author_id]])


def index_of(graph: Graph, clock: Clock, staleness: float = STALENESS) -> PulledIndex:
    """An index over this truth."""
    return PulledIndex(graph.changes, clock, staleness=staleness)


async def test_it_is_unknown_until_it_has_been_asked_for() -> None:
    graph, clock = Graph(), Clock()
    index = index_of(graph, clock)
    assert index.authors is None
    await index.refresh()
    assert index.authors == frozenset()


async def test_a_refresh_asks_for_what_has_changed_alone() -> None:
    graph, clock = Graph(), Clock()
    index = index_of(graph, clock)
    graph.changed = [7, 5]
    await index.refresh()
    assert index.authors == {7, 5}
    graph.changed = [7, 5, 6]
    await index.refresh()
    await index.refresh()
    assert (index.authors, graph.asked) == ({5, 6, 7}, [0, 2, 3])


async def test_it_is_unknown_once_its_last_refresh_began_too_long_ago() -> None:
    graph, clock = Graph(), Clock()
    index = index_of(graph, clock)
    await index.refresh()
    clock.now += STALENESS - 0.01
    assert index.authors is not None
    clock.now += 0.01
    assert index.authors is None
    await index.refresh()
    assert index.authors is not None


async def test_its_age_counts_from_the_beginning_of_the_refresh() -> None:
    clock = Clock()

    async def slowly(since: int) -> Changes:
        clock.now += STALENESS
        return Changes(1, [7])

    index = PulledIndex(slowly, clock, staleness=STALENESS)
    await index.refresh()
    assert index.authors is None


async def test_a_failed_refresh_makes_it_no_younger() -> None:
    graph, clock = Graph(), Clock()
    index = index_of(graph, clock)
    await index.refresh()
    clock.now += STALENESS / 2
    graph.failures = [Unavailable.of_dependency("graph")]
    with pytest.raises(Unavailable):
        await index.refresh()
    assert index.authors is not None
    clock.now += STALENESS / 2
    assert index.authors is None


async def test_who_has_left_is_not_in_it_any_more_and_may_come_back() -> None:
    graph, clock = Graph(), Clock()
    index = index_of(graph, clock)
    graph.changed = [7, 5]
    await index.refresh()
    for changed, expected in (([-7], {5}), ([7], {5, 7}), ([-7, 7, 6], {5, 6, 7}), ([-5, -6, -7], set[int]())):
        graph.changed += changed
        await index.refresh()
        assert index.authors == expected
    graph.changed.append(-9)
    await index.refresh()
    assert index.authors == frozenset(), "one who was never known"


async def test_an_author_who_is_announced_is_in_it_at_once() -> None:
    graph, clock = Graph(), Clock()
    index = index_of(graph, clock)
    await index.refresh()
    before = index.authors
    index.entered(7)
    assert (before, index.authors) == (frozenset(), {7}), "who looked it up keeps what they saw"


async def test_an_announcement_counts_until_the_index_must_have_told_by_itself() -> None:
    graph, clock = Graph(), Clock()
    index = index_of(graph, clock)
    index.entered(7)
    clock.now += STALENESS - 0.5
    index.entered(8)
    await index.refresh()
    assert index.authors == {7, 8}
    clock.now += 0.5
    await index.refresh()
    assert index.authors == {8}, "a late announcement of one who has left keeps nobody"
    index.entered(8)
    clock.now += STALENESS - 0.5
    await index.refresh()
    assert index.authors == {8}, "announced again meanwhile"
    clock.now += 0.5
    await index.refresh()
    assert index.authors == frozenset()


async def test_an_announcement_outlives_an_answer_to_what_was_asked_before_it() -> None:
    """The author leaves, and the index is asked for; they enter again and post, and only then the answer comes."""
    graph, clock = Graph(), Clock()
    graph.changed = [7]
    may_answer = asyncio.Event()

    async def slowly(since: int) -> Changes:
        changes = await graph.changes(since)
        if since:
            await may_answer.wait()
        return changes

    index = PulledIndex(slowly, clock, staleness=STALENESS)
    await index.refresh()
    graph.changed.append(-7)
    refreshing = asyncio.create_task(index.refresh())
    await until(lambda: len(graph.asked) == 2)
    graph.changed.append(7)
    index.entered(7)
    may_answer.set()
    await refreshing
    assert index.authors == {7}


async def test_an_announcement_does_not_make_it_known() -> None:
    index = index_of(Graph(), Clock())
    index.entered(7)
    assert index.authors is None


@pytest.mark.parametrize("failure", [Unavailable.of_dependency("graph"), ValueError("unforeseen")])
async def test_it_is_refreshed_whatever_happens(failure: Exception) -> None:
    graph = Graph()
    graph.failures = [failure]
    async with index_of(graph, Clock(), staleness=0.02) as index:
        await until(lambda: index.authors is not None)
    assert len(graph.asked) >= 2
    assert len(asyncio.all_tasks()) == 1, "no refreshing outlives its owner"


async def test_a_graph_that_hangs_is_given_up_and_asked_again() -> None:
    graph = Graph()
    graph.hangs = True
    async with index_of(graph, Clock(), staleness=0.02) as index:
        await until(lambda: len(graph.asked) >= 2)
        assert index.authors is None
        graph.hangs = False
        await until(lambda: index.authors is not None)
