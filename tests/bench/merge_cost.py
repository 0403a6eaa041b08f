"""The processor time of a warm page in `timeline` between its round trip and hydration: unpack, open the sources, merge.

The viewer follows 300, some of whom are pulled, with 200 recents of each in memory, and has 50 posts of their own; a page
of 20 takes the newest 62 entries of the timeline. Beside it is `heapq.merge` over the same lists, unpacked beforehand,
stopped after as many: what merging alone would cost.
"""

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from feedkit import keys
from feedkit.redis import Redis
from timeline_service.author_posts import AuthorPosts, CachedLists
from timeline_service.contexts import Contexts
from timeline_service.entries import Entry
from timeline_service.home_store import HomeStore
from timeline_service.homes import Homes
from timeline_service.merge import Merge
from timeline_service.recents import Recents
from timeline_service.source import TOP

from tests.bench.canned import FIRST_ID, FOLLOWEES, PAGE
from tests.bench.results import Result

VIEWER = 1
PULLED = (0, 12, 100, 1000)
TIMELINE, RECENTS, OWN = 800, 200, 50
OFTEN = 200


class _Nobody:
    """Stands for all whom a warm read does not ask: the truth, and the caches behind it."""


class _Answers:
    """A Redis whose answers to a read are always the same bytes."""

    def __init__(self, pulled: int) -> None:
        followees = range(2, max(FOLLOWEES, pulled + 50) + 2)
        pushed = [author for author in followees if author > pulled + 1]
        entries = [(FIRST_ID + 1000 * place, pushed[place % len(pushed)]) for place in range(TIMELINE)]
        self.context = keys.value(keys.encode_context(keys.Context(followees)))
        self.timeline = keys.encode_entries(entries) + keys.encode_trailer(keys.Trailer(FIRST_ID - 1, 0, bytes(8)))
        self.own = keys.value(keys.encode_post_list([FIRST_ID + 9000 * place + 1 for place in range(OWN, 0, -1)], 0))

    async def run(self, *commands: Any) -> list[bytes]:
        """The answers: the context, the newest entries of the timeline, the viewer's own posts."""
        return [self.context, self.timeline[commands[1][2] :], self.own]


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure the cost of each case, and how many times that of merging alone it is; a second a run is enough."""
    seconds = min(seconds, 1.0)
    results: list[Result] = []
    for pulled in PULLED:
        page, bare = _page(pulled), _bare(pulled)
        assert [entry.post_id for entry in page()] == bare()
        times = [(_microseconds(page, seconds), _microseconds(bare, seconds)) for _ in range(runs)]
        key = f"timeline.warm_page.pulled_{pulled}"
        results += [
            Result.of(f"{key}.us", [mine for mine, _ in times], unit="us", goal="lower"),
            Result.of(f"{key}.vs_heapq_merge", [mine / floor for mine, floor in times], unit="ratio", goal="lower"),
        ]
    return results


def _lists(pulled: int) -> dict[int, AuthorPosts]:
    """The recents of pulled followees: who is followed by many writes often, so that the page has posts of most."""
    return {
        author: AuthorPosts.of([FIRST_ID + 4000 * place + author for place in range(RECENTS, 0, -1)], FIRST_ID - 1)
        for author in range(2, pulled + 2)
    }


def _page(pulled: int) -> Callable[[], list[Entry]]:
    """Reads a page as the service does, from the answers of Redis to the entries that are to be hydrated."""
    redis, nobody, lists = cast("Redis", _Answers(pulled)), cast("Any", _Nobody()), _lists(pulled)
    store = HomeStore(redis, cache_ms=1, timeline_ms=1)

    async def loaded(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        return {author_id: lists[author_id] for author_id in author_ids}

    recents = Recents(loaded, time.monotonic, staleness=math.inf, remembered=len(lists) + 1)
    asyncio.run(recents.get(list(lists)))
    homes = Homes(
        store,
        Contexts(nobody, store),
        nobody,
        CachedLists(nobody, nobody, OWN),
        recents,
        pulled=lambda authors=frozenset(lists): authors,
        wish_rebuild=nobody,
    )

    async def page() -> list[Entry]:
        home = await homes.open(VIEWER, TOP, PAGE)
        return await Merge(home.sources, TOP, home.viewer.authors).take(PAGE + 1)

    return lambda: _finished(page())


def _bare(pulled: int) -> Callable[[], list[int]]:
    """The same page by `heapq.merge` alone."""
    tail = keys.decode_timeline(_Answers(pulled).timeline)
    assert tail is not None
    timeline, _ = tail.columns(tail.length - 62, tail.length)
    own = keys.decode_post_list(keys.payload(_Answers(pulled).own) or b"").post_ids
    columns = [timeline[::-1], own, *(tuple(posts.post_ids[::-1]) for posts in _lists(pulled).values())]
    return lambda: list(islice(heapq.merge(*columns, reverse=True), PAGE + 1))


def _finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits, without the cost of an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a warm read waits for nobody")


def _microseconds(call: Callable[[], object], seconds: float) -> float:
    calls, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        for _ in range(OFTEN):
            call()
        calls += OFTEN
    return (time.process_time() - began) / calls * 1e6
