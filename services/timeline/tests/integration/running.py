"""The running process `timeline` over a real Redis, with neighbours that are their contracts over a truth in memory."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from devmesh.backends.valkey import Valkey
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit import key_scripts, keys, redis
from feedkit.channel import connect
from feedkit.redis import Redis, RedisSettings
from feedkit.server import Process
from timeline_service.__main__ import SERVICE, run
from timeline_service.config import TimelineSettings

from .neighbours import Neighbours, serving
from .relay import Relay, relaying

if TYPE_CHECKING:
    from feed.timeline.v1.timeline_pb2_grpc import TimelineServiceAsyncStub

VIEWER, ANN, BOB, STAR, NOVA = 1, 2, 3, 4, 5
DAY_MS = 86_400_000
LONG = 600.0
"""Seconds that are not over before a test is: nothing is seen late just because something was kept for a while."""


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds; fail after 10 s."""
    for _ in range(1000):
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        await asyncio.sleep(0.01)
    pytest.fail("not after 10 s")


class Timeline:
    """The running process, with everything around it."""

    def __init__(self, stub: "TimelineServiceAsyncStub", truth: Neighbours, direct: Redis, relay: Relay) -> None:
        self.truth = truth
        self.direct = direct
        self.relay = relay
        self._stub = stub

    async def page(
        self, page_token: str = "", page_size: int = 20, **request: Any
    ) -> timeline_pb2.GetHomeTimelineResponse:
        """A page of the viewer; `request` are further fields."""
        message = timeline_pb2.GetHomeTimelineRequest(
            viewer_id=VIEWER, page_size=page_size, page_token=page_token, **request
        )
        return await self._stub.GetHomeTimeline(message)

    async def ranking(self) -> timeline_pb2.GetRankingResponse:
        """How the ranked view is made."""
        return await self._stub.GetRanking(timeline_pb2.GetRankingRequest())

    async def ids(self, page_size: int = 20) -> list[int]:
        """The first page."""
        return [shown.post.id for shown in (await self.page(page_size=page_size)).posts]

    async def walk(self, page_size: int, between: Callable[[], Any] = lambda: None) -> list[int]:
        """All pages; `between` runs between two of them, and may be awaitable."""
        shown: list[int] = []
        token = ""
        while True:
            page = await self.page(token, page_size)
            shown += [post.post.id for post in page.posts]
            if not (token := page.next_page_token):
                return shown
            if (waiting := between()) is not None:
                await waiting

    async def materialise(self, horizon: int = 0) -> None:
        """Give the viewer a timeline, as `fanout` does: pushed posts above a horizon."""
        pushed = self.truth.follows[VIEWER] - set(self.truth.pulled)
        posts = sorted(item for item in self.truth.posts.items() if item[1] in pushed and item[0] > horizon)
        await self.direct.run(
            key_scripts.delete_timeline(VIEWER),
            key_scripts.create_timeline(VIEWER, horizon, DAY_MS),
            key_scripts.push(VIEWER, keys.encode_entries(posts), 800),
        )

    async def warm(self) -> None:
        """A timeline, and reads that fill in everything else."""
        await self.materialise()
        await until(self.is_warm)
        self.forget()

    async def is_warm(self) -> bool:
        """Whether a read, which has to be right, asks nobody but Redis and `hydrate`."""
        self.truth.calls.clear()
        assert await self.ids() == self.truth.timeline_of(VIEWER)[:20]
        return not self.truth.calls.keys() & {"GetViewerContext", "ListRecentByAuthors"}

    def forget(self) -> None:
        """Forget what has been asked so far."""
        self.truth.calls.clear()
        self.relay.asked.clear()

    @property
    def round_trips(self) -> int:
        """How often Redis was asked, apart from the pings of who listens to announcements."""
        return sum(b"PING" not in piece for piece in self.relay.asked)


@asynccontextmanager
async def started(valkey: Valkey, truth: Neighbours, **settings: Any) -> AsyncGenerator[Timeline]:
    """The process with these settings, serving, over an empty Redis."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving(truth))
        relay = await stack.enter_async_context(relaying(valkey.port))
        direct = await stack.enter_async_context(redis.connect(RedisSettings.model_validate({"redis_url": valkey.url})))
        await direct.run(("FLUSHALL",))
        chosen = TimelineSettings.model_validate(
            {
                "grpc_listen": "127.0.0.1:0",
                "drain_seconds": 0,
                "redis_url": f"redis://127.0.0.1:{relay.port}/0",
                "pulled_staleness_seconds": LONG,
                **{f"{name}_target": address for name in ("graph", "post", "hydrate", "fanout")},
                **settings,
            }
        )
        process = Process("timeline", chosen, stack)
        running = asyncio.create_task(run(process, chosen))
        try:
            await until(lambda: process.address is not None or running.done())
            assert process.address is not None, await running
            channel = await stack.enter_async_context(connect(process.address, SERVICE, "timeline"))
            yield Timeline(timeline_pb2_grpc.TimelineServiceStub(channel), truth, direct, relay)
        finally:
            process.stop()
            await running
