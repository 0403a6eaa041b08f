"""Authors cross the celebrity line both ways, by growth, by configuration and by lag, and no feed ever lacks a post."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress

import grpc.aio
import pytest
from devmesh.mesh import Mesh
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed_api import FeedApi
from limits import LENGTH, THRESHOLD
from outages import stopped
from polling import until
from settling import settled
from stored_keys import StoredKeys
from timelines import posts_in_turn, users, warmed
from walks import differences, each

pytestmark = pytest.mark.integration

FLOOR = 3
USUAL = {
    "FEED_CELEBRITY_THRESHOLD": str(THRESHOLD),
    "FEED_CELEBRITY_FLOOR": "1000",
    "FEED_LAG_LIMIT_SECONDS": "10",
    "FEED_LAG_CLEAR_SECONDS": "2",
    "FEED_LAG_CLEAR_FOR_SECONDS": "60",
    "FEED_CELEBRITY_STEP_SECONDS": "5",
}
MOVING = {
    "FEED_CELEBRITY_FLOOR": str(FLOOR),
    "FEED_LAG_LIMIT_SECONDS": "2",
    "FEED_LAG_CLEAR_SECONDS": "1.5",
    "FEED_LAG_CLEAR_FOR_SECONDS": "2",
    "FEED_CELEBRITY_STEP_SECONDS": "0.2",
}


async def is_pulled(mesh: Mesh, author: int) -> bool:
    """Whether an author is in the index of pulled authors."""
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["graph"]) as channel:
        graph = graph_pb2_grpc.GraphServiceStub(channel)
        index = await graph.ListPulledAuthors(graph_pb2.ListPulledAuthorsRequest(), timeout=5)
    return author in index.entered_author_ids


async def until_pushed(mesh: Mesh, author: int) -> None:
    """Return when an author is not pulled any more."""

    async def left() -> bool:
        return not await is_pulled(mesh, author)

    await until(left, "the author has left the index")


async def status(mesh: Mesh) -> fanout_pb2.GetStatusResponse:
    """How fan-out says that it does."""
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["fanout"]) as channel:
        fanout = fanout_pb2_grpc.FanoutServiceStub(channel)
        return await fanout.GetStatus(fanout_pb2.GetStatusRequest(), timeout=10)


async def with_settings(mesh: Mesh, settings: Mapping[str, str]) -> None:
    """Restart fan-out with other settings."""
    if "fanout" in mesh.addresses.pids:
        await asyncio.to_thread(mesh.terminate, "fanout")
    await asyncio.to_thread(mesh.restart, "fanout", settings)


@asynccontextmanager
async def watched(mesh: Mesh, api: FeedApi, viewers: list[int]) -> AsyncGenerator[None]:
    """Within the block these viewers, whose follows stand and to whom nobody writes, walk their feeds all the time, and no
    walk differs from the truth."""
    enough = asyncio.Event()

    async def walk_on() -> int:
        walks = 0
        while not enough.is_set() or not walks:
            assert await differences(mesh, api, viewers, 7) == []
            walks += 1
        return walks

    walking = asyncio.create_task(walk_on())
    try:
        yield
    finally:
        enough.set()
        assert await walking


async def assert_pushed(mesh: Mesh, api: FeedApi, stored: StoredKeys, author: int, followers: list[int]) -> None:
    """The author's next post reaches the followers' timelines in Redis, and every feed is right."""
    latest = int((await api.create_post(author, "Pushed"))["id"])
    await settled(mesh)
    for follower in followers:
        assert latest in await stored.timeline_ids(follower)
    assert await differences(mesh, api, followers, 7) == []


async def assert_pulled(mesh: Mesh, api: FeedApi, stored: StoredKeys, author: int, followers: list[int]) -> None:
    """The author's next post reaches no timeline in Redis, and every feed is right."""
    latest = int((await api.create_post(author, "Pulled"))["id"])
    await settled(mesh)
    assert await is_pulled(mesh, author)
    for follower in followers:
        assert latest not in await stored.timeline_ids(follower)
    assert await differences(mesh, api, followers, 7) == []


@pytest.mark.timeout(300)
async def test_an_author_grows_over_the_line_and_shrinks_below_it(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    author, quiet = await users(api, "Author", 2)
    loyal, passing = await users(api, "Loyal", THRESHOLD - 1), await users(api, "Passing", 3)
    await each([*loyal, *passing], lambda viewer: api.follow(viewer, quiet))
    await each(loyal, lambda viewer: api.follow(viewer, author))
    await posts_in_turn(api, [author, quiet], 2)
    await warmed(mesh, api, stored, [*loyal, *passing])
    await assert_pushed(mesh, api, stored, author, loyal)

    await each(passing, lambda viewer: api.follow(viewer, author))
    await settled(mesh)
    await assert_pulled(mesh, api, stored, author, [*loyal, *passing])
    await posts_in_turn(api, [author], LENGTH + 2)
    await settled(mesh)

    async with watched(mesh, api, loyal):
        await each(passing, lambda viewer: api.unfollow(viewer, author))
        await until_pushed(mesh, author)
    assert await differences(mesh, api, [*loyal, *passing], 20) == []
    await assert_pushed(mesh, api, stored, author, loyal)
    assert await differences(mesh, api, passing, 7) == []

    # And once more.
    await each(passing, lambda viewer: api.follow(viewer, author))
    await settled(mesh)
    await assert_pulled(mesh, api, stored, author, [*loyal, *passing])


@pytest.mark.timeout(300)
async def test_the_line_is_configured_above_authors_and_below_them(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [author], followers = await users(api, "Author", 1), await users(api, "Follower", THRESHOLD + 1)
    await each(followers, lambda viewer: api.follow(viewer, author))
    await posts_in_turn(api, [author], LENGTH + 2)
    await warmed(mesh, api, stored, followers)
    await assert_pulled(mesh, api, stored, author, followers)
    try:
        async with watched(mesh, api, followers):
            await with_settings(mesh, {"FEED_CELEBRITY_THRESHOLD": str(10 * THRESHOLD)})
            await until_pushed(mesh, author)
        await assert_pushed(mesh, api, stored, author, followers)
    finally:
        await with_settings(mesh, USUAL)
    assert (await status(mesh)).celebrity_threshold == THRESHOLD
    await assert_pulled(mesh, api, stored, author, followers)


@pytest.mark.timeout(300)
async def test_lag_moves_the_line_below_authors_and_back_above_them(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [author], followers = await users(api, "Author", 1), await users(api, "Follower", FLOOR)
    await each(followers, lambda viewer: api.follow(viewer, author))
    await posts_in_turn(api, [author], 3)
    await warmed(mesh, api, stored, followers)
    told: list[tuple[int, int]] = []

    async def tells(threshold: int, cause: fanout_pb2.ThresholdCause.ValueType) -> bool:
        with suppress(grpc.aio.AioRpcError):
            said = await status(mesh)
            assert said.configured_celebrity_threshold == 4 * FLOOR
            told.append((said.celebrity_threshold, said.threshold_cause))
        return told[-1:] == [(threshold, cause)]

    try:
        await with_settings(mesh, {**MOVING, "FEED_CELEBRITY_THRESHOLD": str(4 * FLOOR)})
        async with stopped(mesh, "post-relay"):
            late = int((await api.create_post(author, "Late"))["id"])
            await asyncio.to_thread(mesh.terminate, "graph")
        # Nobody can say to whom the post is to be brought.
        await until(lambda: tells(FLOOR, fanout_pb2.THRESHOLD_CAUSE_LAG), "the floor, because of lag")
        await asyncio.to_thread(mesh.restart, "graph")
        await api.create_post(author, "Later")
        await until(lambda: is_pulled(mesh, author), "where it lags, more authors are pulled")
        async with watched(mesh, api, followers):
            await until(lambda: tells(4 * FLOOR, fanout_pb2.THRESHOLD_CAUSE_CONFIGURED), "back at the setting")
            await until_pushed(mesh, author)
        assert (2 * FLOOR, fanout_pb2.THRESHOLD_CAUSE_RECOVERING) in told
        await assert_pushed(mesh, api, stored, author, followers)
        for follower in followers:
            assert late in await stored.timeline_ids(follower)
    finally:
        if "graph" not in mesh.addresses.pids:
            await asyncio.to_thread(mesh.restart, "graph")
        await with_settings(mesh, USUAL)
