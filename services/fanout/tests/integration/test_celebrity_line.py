"""The celebrity line moves with the lag, by one leader for all; whoever is too small for it is pushed again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import grpc
import pytest
from devmesh.mesh import Mesh
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feedkit import keys
from feedkit.channel import connect
from feedkit.errors import FeedError

from .conftest import LENGTH, SECOND, SETTINGS, THRESHOLD, World, eventually

if TYPE_CHECKING:
    from feed.fanout.v1.fanout_pb2_grpc import FanoutServiceAsyncStub

pytestmark = pytest.mark.integration

FLOOR = 10
LEADER_SECONDS = 1.0
QUICK = {
    "FEED_CELEBRITY_FLOOR": str(FLOOR),
    "FEED_LAG_LIMIT_SECONDS": "1",
    "FEED_LAG_CLEAR_SECONDS": "0.8",
    "FEED_LAG_CLEAR_FOR_SECONDS": "1",
    "FEED_CELEBRITY_STEP_SECONDS": "0.2",
    "FEED_LEADER_SECONDS": str(LEADER_SECONDS),
    "FEED_LEAVING_INTERVAL_SECONDS": "0.2",
}
USUAL = {
    "FEED_CELEBRITY_FLOOR": "1000",
    "FEED_LAG_LIMIT_SECONDS": "10",
    "FEED_LAG_CLEAR_SECONDS": "2",
    "FEED_LAG_CLEAR_FOR_SECONDS": "60",
    "FEED_CELEBRITY_STEP_SECONDS": "5",
    "FEED_LEADER_SECONDS": "3",
    "FEED_LEAVING_INTERVAL_SECONDS": SETTINGS["FEED_LEAVING_INTERVAL_SECONDS"],
}
LAG, RECOVERING, CONFIGURED = (
    fanout_pb2.THRESHOLD_CAUSE_LAG,
    fanout_pb2.THRESHOLD_CAUSE_RECOVERING,
    fanout_pb2.THRESHOLD_CAUSE_CONFIGURED,
)


@pytest.fixture(scope="module", autouse=True)
def quick(mesh: Mesh) -> Iterator[None]:
    """Two processes that move the line, and look for authors who shrank, in a hurry."""
    mesh.terminate("fanout")
    mesh.restart("fanout", QUICK)
    mesh.restart(SECOND, QUICK)
    yield
    for process in ("fanout", SECOND):
        if process in mesh.addresses.pids:
            mesh.terminate(process)
    mesh.restart("fanout", USUAL)


class Processes:
    """What both processes say."""

    def __init__(self, stubs: "dict[str, FanoutServiceAsyncStub]") -> None:
        self._stubs = stubs

    async def status(self, process: str) -> fanout_pb2.GetStatusResponse:
        return await self._stubs[process].GetStatus(fanout_pb2.GetStatusRequest())

    async def line(self, process: str) -> tuple[int, int, int, str]:
        """Threshold, cause, since when in milliseconds, and the leader."""
        status = await self.status(process)
        since = status.threshold_since.ToMilliseconds()
        return status.celebrity_threshold, status.threshold_cause, since, status.threshold_leader

    async def until_all_tell(self, threshold: int, cause: int, processes: Sequence[str] = ("fanout", SECOND)) -> int:
        """Wait until all of them tell the same: this; since when in milliseconds."""
        told: list[tuple[int, int, int, str]] = []

        async def all_tell() -> bool:
            told.clear()
            with suppress(FeedError):
                told.extend([await self.line(process) for process in processes])
            return len(set(told)) == 1 and told[0][:2] == (threshold, cause) and told[0][3] != ""

        await eventually(all_tell, f"{threshold} because of {cause} from all, the last time {told}")
        return told[0][2]


@pytest.fixture
async def processes(mesh: Mesh) -> AsyncIterator[Processes]:
    """Both processes, which have come to rest."""
    service = fanout_pb2.DESCRIPTOR.services_by_name["FanoutService"]
    async with AsyncExitStack() as stack:
        stubs: dict[str, FanoutServiceAsyncStub] = {}
        for name in ("fanout", SECOND):
            channel = await stack.enter_async_context(connect(mesh.addresses.grpc[name], service, name))
            stubs[name] = fanout_pb2_grpc.FanoutServiceStub(channel)
        processes = Processes(stubs)
        await processes.until_all_tell(THRESHOLD, CONFIGURED)
        yield processes


async def leader_of(mesh: Mesh, world: World) -> tuple[str, str]:
    """The process that leads, which tells so in its log, and the other one."""
    [raw] = await world.store.run(("GET", keys.FANOUT_LEADER))
    name = raw.decode()
    [leader] = [process for process in ("fanout", SECOND) if name in mesh.log(process)]
    return leader, SECOND if leader == "fanout" else "fanout"


# --- the line -----------------------------------------------------------------------------------------------------------


async def test_lag_moves_the_line_down_to_its_floor_and_it_comes_back_when_that_is_gone(
    world: World, processes: Processes
) -> None:
    author = world.user()
    followers = world.crowd(FLOOR + 2, author)
    await world.open(*followers)
    before = (await processes.line("fanout"))[2]
    world.truth.failing["ClassifyAuthors"] = grpc.StatusCode.UNAVAILABLE
    post = await world.post(author)
    since = await processes.until_all_tell(FLOOR, LAG)
    assert since > before + 1000
    assert since % 1000 or (await processes.line("fanout"))[2] == since, "to the millisecond, and it stays so"
    status = await processes.status(SECOND)
    assert status.configured_celebrity_threshold == THRESHOLD
    assert status.lag_ms > 1000
    assert status.lag_events >= 1
    # The question about the first post may have been put already, and be answered late.
    later = await world.post(author)

    seen: list[tuple[int, int]] = []

    async def is_back() -> bool:
        threshold, cause, _, _ = await processes.line("fanout")
        if (threshold, cause) not in seen:
            seen.append((threshold, cause))
        return cause == CONFIGURED

    world.truth.failing.clear()
    await eventually(is_back, "back at the setting")
    way = [(FLOOR, LAG), (2 * FLOOR, RECOVERING), (4 * FLOOR, RECOVERING), (THRESHOLD, CONFIGURED)]
    assert seen == [step for step in way if step in seen]
    assert RECOVERING in {cause for _, cause in seen}
    await world.settle()
    assert world.truth.decided[author], "where it lags, more are pulled"

    async def is_pushed_again() -> bool:
        return author not in world.truth.pulled

    await eventually(is_pushed_again, "what the lag let in has left")
    for follower in followers:
        assert await world.shown(follower) == [later, post]


async def test_a_silent_broker_moves_nothing(mesh: Mesh, world: World, processes: Processes) -> None:
    world.truth.failing["ClassifyAuthors"] = grpc.StatusCode.UNAVAILABLE
    await world.post(world.user())
    await processes.until_all_tell(FLOOR, LAG)
    kafka = mesh.addresses.pids["kafka"]
    os.kill(kafka, signal.SIGSTOP)
    try:
        world.truth.failing.clear()
        for _ in range(10):
            raw, _ = await world.store.run(("GET", keys.CELEBRITY_LINE), ("PING",))
            assert b'"LAG"' in raw
            await asyncio.sleep(0.2)
    finally:
        os.kill(kafka, signal.SIGCONT)
    await processes.until_all_tell(THRESHOLD, CONFIGURED)


async def test_a_redis_that_lost_everything_is_told_the_line_again(world: World, processes: Processes) -> None:
    since = await processes.until_all_tell(THRESHOLD, CONFIGURED)
    await world.store.run(("DEL", keys.CELEBRITY_LINE, keys.FANOUT_LEADER))
    assert await processes.until_all_tell(THRESHOLD, CONFIGURED) == since
    await world.store.run(
        ("HSET", "foreign", "not", "ours"),
        ("RENAME", "foreign", keys.CELEBRITY_LINE),
        ("SET", keys.FANOUT_LEADER, "somebody", "PX", 100),
    )
    assert await processes.until_all_tell(THRESHOLD, CONFIGURED) == since

    async def is_ours() -> bool:
        [kind] = await world.store.run(("TYPE", keys.CELEBRITY_LINE))
        return kind in {b"string", "string"}

    await eventually(is_ours, "told again")


async def test_a_line_that_nobody_of_us_wrote_is_ignored(world: World, processes: Processes) -> None:
    since = await processes.until_all_tell(THRESHOLD, CONFIGURED)
    for foreign in ("nonsense", "[]", '{"threshold": -1, "cause": "LAG", "since_ms": 0}', '{"threshold": 1e999}'):
        await world.store.run(("SET", keys.CELEBRITY_LINE, foreign))
        assert await processes.until_all_tell(THRESHOLD, CONFIGURED) == since


# --- the leader -----------------------------------------------------------------------------------------------------------


async def test_another_leads_soon_after_the_leader_was_killed(mesh: Mesh, world: World, processes: Processes) -> None:
    leader, other = await leader_of(mesh, world)
    _, _, since, name = await processes.line(other)
    await asyncio.to_thread(mesh.kill, leader)
    try:

        async def has_taken_over() -> bool:
            return (await processes.line(other))[3] not in {name, ""}

        async with asyncio.timeout(LEADER_SECONDS + 3):
            await eventually(has_taken_over, "another leader")
        assert (await processes.line(other))[:3] == (THRESHOLD, CONFIGURED, since), "the line is where it was"
    finally:
        await asyncio.to_thread(mesh.restart, leader)


async def test_another_leads_at_once_when_the_leader_ends_in_peace(
    mesh: Mesh, world: World, processes: Processes
) -> None:
    leader, other = await leader_of(mesh, world)
    name = (await processes.line(other))[3]
    assert await asyncio.to_thread(mesh.terminate, leader) == 0
    try:

        async def has_taken_over() -> bool:
            return (await processes.line(other))[3] not in {name, ""}

        await eventually(has_taken_over, "another leader")
    finally:
        await asyncio.to_thread(mesh.restart, leader)


async def test_a_leader_that_was_stopped_for_a_while_is_none_when_it_goes_on(
    mesh: Mesh, world: World, processes: Processes
) -> None:
    leader, other = await leader_of(mesh, world)
    pid = mesh.addresses.pids[leader]
    os.kill(pid, signal.SIGSTOP)
    try:

        async def the_other_leads() -> bool:
            [raw] = await world.store.run(("GET", keys.FANOUT_LEADER))
            return raw is not None and raw.decode() in mesh.log(other)

        await eventually(the_other_leads, "another leader")
    finally:
        os.kill(pid, signal.SIGCONT)

    async def has_noticed() -> bool:
        return "leads no longer" in mesh.log(leader).rpartition("leads now")[2]

    await eventually(has_noticed, "the zombie has noticed")
    assert (await leader_of(mesh, world))[0] == other


# --- leaving the index ---------------------------------------------------------------------------------------------------


async def test_an_author_who_shrank_leaves_with_all_that_timelines_have_room_for(world: World) -> None:
    author = world.user()
    followers = world.crowd(THRESHOLD, author)
    await world.open(*followers)
    posts = [await world.post(author) for _ in range(LENGTH + 5)]
    await world.settle()
    assert await world.shown(followers[0]) == []
    enough, gone = followers[: THRESHOLD // 2], followers[THRESHOLD // 2 :]
    for follower in gone:
        await world.unfollow(follower, author)

    async def has_left() -> bool:
        return author not in world.truth.pulled

    await eventually(has_left, "the author has left")
    for follower in enough:
        assert await world.shown(follower) == posts[: -LENGTH - 1 : -1]
        tail = await world.timeline(follower)
        assert tail is not None
        assert tail.trailer.horizon == posts[-LENGTH - 1], "and no more is promised"
    posts.append(await world.post(author))
    await world.settle()
    assert await world.shown(enough[0]) == posts[: -LENGTH - 1 : -1], "from now on the author's posts are pushed"


async def test_an_author_just_below_the_line_stays_so_that_nobody_goes_to_and_fro(world: World) -> None:
    author, small = world.user(), world.user()
    followers = world.crowd(THRESHOLD * 4 // 5, author)
    world.crowd(THRESHOLD * 4 // 5 - 1, small)
    await world.open(*followers)
    world.truth.pulled |= {author, small}

    async def small_has_left() -> bool:
        return small not in world.truth.pulled

    await eventually(small_has_left, "the smaller one has left")
    assert author in world.truth.pulled
    world.truth.pulled.discard(author)


async def test_leaving_begins_again_where_a_post_came_between_or_a_dependency_was_away(world: World) -> None:
    author = world.user()
    followers = world.crowd(5, author)
    await world.open(*followers)
    world.truth.failing["LeavePulledAuthors"] = grpc.StatusCode.UNAVAILABLE
    world.truth.pulled.add(author)
    posts = [await world.post(author)]

    async def was_tried() -> bool:
        return world.truth.asked["LeavePulledAuthors"] >= 2

    await eventually(was_tried, "tried")
    posts.append(await world.post(author))
    await world.settle()
    world.truth.failing.clear()

    async def has_left() -> bool:
        return author not in world.truth.pulled

    await eventually(has_left, "the author has left")
    for follower in followers:
        assert await world.shown(follower) == posts[::-1]
