"""Rebuilds home timelines: of some viewers, of those whose key is in a lost shard of Redis, or of everybody who is active.

Asking is all that happens here. `fanout` does the work, at a pace of its own, and a request outlives any crash.
"""

import asyncio
from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from feed.fanout.v1 import fanout_pb2
from feed.fanout.v1 import fanout_pb2_grpc as _fanout_grpc
from feed.graph.v1 import graph_pb2
from feed.graph.v1 import graph_pb2_grpc as _graph_grpc
from feedkit import channel, keys
from feedkit.errors import Unavailable
from redis.crc import key_slot
from redis.exceptions import RedisError

from feedctl.redis_keys import RedisKeys, keys_in
from feedctl.targets import Targets, TargetsError

if TYPE_CHECKING:
    from feed.fanout.v1.fanout_pb2_grpc import FanoutServiceAsyncStub
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub

BATCH = 200
"""How many viewers are looked at together."""
MOST_AT_ONCE = 20
"""How many requests are under way at the same time at most."""

fanout_grpc = cast("Any", _fanout_grpc)
graph_grpc = cast("Any", _graph_grpc)
FANOUT = fanout_pb2.DESCRIPTOR.services_by_name["FanoutService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]


def slot(viewer_id: int) -> int:
    """The hash slot in which a Redis Cluster has a viewer's timeline."""
    return key_slot(keys.timeline(viewer_id).encode())


@dataclass(frozen=True)
class Selection:
    """Whose timelines."""

    viewer_ids: Collection[int] = ()
    """Of these viewers; of none in particular: of all who are active."""
    slots: Collection[range] = ()
    """Only those whose timeline is in one of these hash slots; none are all."""
    active_days: int = 0
    """How many days ago active viewers were here at the longest."""
    after: int = 0
    """Only those with greater ids."""

    async def resolve(self, graph: "GraphServiceAsyncStub") -> "array[int]":
        """The viewers' ids, ascending. Raises feedkit.errors.FeedError.

        All at once, 8 bytes each, because no stream lives for as long as asking for everybody takes.
        """
        if self.viewer_ids:
            return array("q", filter(self.has, sorted(set(self.viewer_ids))))
        found = array("q")
        async for page in graph.StreamActiveUsers(graph_pb2.StreamActiveUsersRequest(active_days=self.active_days)):
            found.extend(filter(self.has, page.user_ids))
        return found

    def has(self, viewer_id: int) -> bool:
        """Whether this viewer is one of them, if they are active."""
        return viewer_id > self.after and (not self.slots or any(slot(viewer_id) in some for some in self.slots))


@dataclass
class Tally:
    """What has become of the viewers so far, each of whom is counted once."""

    reached: int
    """All viewers up to this one are done with: from here another run goes on."""
    asked: int = 0
    """For whom a rebuild was asked for."""
    standing: int = 0
    """Whose timeline was not missing."""
    following_nobody: int = 0
    """Who follow nobody, and so need no timeline."""
    unknown: int = 0
    """Who are not there, or not any more."""

    @property
    def viewers(self) -> int:
        """How many there were in all."""
        return self.asked + self.standing + self.following_nobody + self.unknown


class Rebuild:
    """Asks for timelines, in the order of their viewers' ids."""

    def __init__(
        self,
        graph: "GraphServiceAsyncStub",
        fanout: "FanoutServiceAsyncStub",
        standing_in: RedisKeys | None,
        tally: Tally,
        *,
        per_second: float,
    ) -> None:
        """`standing_in`: the Redis in which those stand that need not be asked for; None: all are asked for."""
        self._graph = graph
        self._fanout = fanout
        self._redis = standing_in
        self._tally = tally
        self._turn = even_pace(per_second)
        # What comes in a tenth of a second: little is asked for twice when another run goes on after this one.
        self._at_once = max(1, min(MOST_AT_ONCE, int(per_second / 10)))

    async def run(self, viewer_ids: Sequence[int], progress: Callable[[int], None]) -> None:
        """Ask for everybody's timeline; `progress` is told how many viewers are done with.

        `viewer_ids` are ascending. Raises feedkit.errors.FeedError.
        """
        for batch in _parts(viewer_ids, BATCH):
            for some in _parts(await self._following(await self._missing(batch)), self._at_once):
                await asyncio.gather(*map(self._ask, some))
                self._tally.reached = some[-1]
                progress(self._tally.viewers)
            self._tally.reached = batch[-1]
            progress(self._tally.viewers)

    async def _missing(self, viewer_ids: Sequence[int]) -> Sequence[int]:
        if self._redis is None:
            return viewer_ids
        try:
            stand = await self._redis.exist(list(map(keys.timeline, viewer_ids)))
        except RedisError as error:
            raise Unavailable.of_dependency("redis", error) from error
        self._tally.standing += sum(stand)
        return [viewer_id for viewer_id, stands in zip(viewer_ids, stand, strict=True) if not stands]

    async def _following(self, viewer_ids: Sequence[int]) -> Sequence[int]:
        request = graph_pb2.BatchGetUsersRequest(user_ids=viewer_ids, view=graph_pb2.USER_VIEW_FULL)
        users = (await self._graph.BatchGetUsers(request)).users
        following = [user.id for user in users if user.following_count]
        self._tally.unknown += len(viewer_ids) - len(users)
        self._tally.following_nobody += len(users) - len(following)
        return following

    async def _ask(self, viewer_id: int) -> None:
        await self._turn()
        await self._fanout.Reconcile(fanout_pb2.ReconcileRequest(viewer_id=viewer_id))
        self._tally.asked += 1


def _parts(ids: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def even_pace(per_second: float, clock: Callable[[], float] = monotonic) -> Callable[[], Awaitable[None]]:
    """A function that waits for one's turn, of which so many come in a second, evenly."""
    turn = clock()

    async def wait() -> None:
        nonlocal turn
        turn = max(turn, clock()) + 1 / per_second
        await asyncio.sleep(turn - clock())

    return wait


@asynccontextmanager
async def clients(
    targets: Targets, *, with_redis: bool
) -> AsyncGenerator[tuple["GraphServiceAsyncStub", "FanoutServiceAsyncStub", RedisKeys | None]]:
    """What a rebuild needs: graph, fanout and, if asked for, Redis. Raises TargetsError where an address lacks."""
    if not {"graph", "fanout"} <= targets.grpc.keys():
        raise TargetsError("rebuilding needs the gRPC addresses of `graph` and `fanout`")
    redis_url = targets.redis if with_redis else None
    if with_redis and redis_url is None:
        raise TargetsError("finding missing timelines needs the address of Redis")
    async with AsyncExitStack() as stack:
        graph = await stack.enter_async_context(channel.connect(targets.grpc["graph"], GRAPH, "graph"))
        fanout = await stack.enter_async_context(channel.connect(targets.grpc["fanout"], FANOUT, "fanout"))
        store = None
        if redis_url is not None:
            try:
                store = await stack.enter_async_context(keys_in(redis_url))
            except RedisError as error:
                raise Unavailable.of_dependency("redis", error) from error
        yield graph_grpc.GraphServiceStub(graph), fanout_grpc.FanoutServiceStub(fanout), store
