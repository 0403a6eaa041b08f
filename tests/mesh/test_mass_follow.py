"""Somebody follows a thousand others at once: their timeline is mended behind it, and nobody else waits for that."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc.aio
import pytest
from devmesh.mesh import Mesh
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feed_api import FeedApi
from limits import LENGTH
from polling import until
from settling import settled
from stored_keys import StoredKeys
from timelines import posts_in_turn, users, warmed
from walks import differences, truth_of

pytestmark = pytest.mark.integration

MASS = 1000
USUAL_PACE = 200
"""What a mesh that is told nothing else has."""


async def at_pace(mesh: Mesh, reconciles_per_second: float) -> None:
    """Start `fanout` anew, so that it begins to mend so many timelines a second."""
    await asyncio.to_thread(mesh.terminate, "fanout")
    await asyncio.to_thread(mesh.restart, "fanout", {"FEED_RECONCILES_PER_SECOND": str(reconciles_per_second)})


@asynccontextmanager
async def hardly_mending(mesh: Mesh) -> AsyncGenerator[None]:
    """Within the block a thousand wishes take minutes, so that what happens in it certainly comes before."""
    await at_pace(mesh, 3)
    try:
        yield
    finally:
        await at_pace(mesh, USUAL_PACE)


async def open_reconciles(mesh: Mesh) -> int:
    """How many parts of timelines are still to be mended."""
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["fanout"]) as channel:
        fanout = fanout_pb2_grpc.FanoutServiceStub(channel)
        return (await fanout.GetSettled(fanout_pb2.GetSettledRequest(), timeout=5)).open_reconciles


@pytest.mark.timeout(300)
async def test_a_mass_follow_delays_nobody_elses_fan_out(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    [friend, keen, other], strangers = await users(api, "Friend", 3), await users(api, "Stranger", MASS)
    for viewer in (keen, other):
        await api.follow(viewer, friend)
    written = await posts_in_turn(api, strangers[::40], 1)
    await warmed(mesh, api, stored, [keen, other])

    async with hardly_mending(mesh):
        outcomes = await api.follow_many(keen, strangers)
        assert len(outcomes) == MASS

        async def waits() -> bool:
            # More than are handled together, so that it is not the last of them that is open at the end.
            return await open_reconciles(mesh) > MASS / 2

        await until(waits, "most wishes are open")
        post = int((await api.create_post(friend, "For everybody"))["id"])

        async def arrived() -> bool:
            return not [viewer for viewer in (keen, other) if post not in await stored.timeline_ids(viewer)]

        await until(arrived, "another author's post")
        assert await open_reconciles(mesh) > 0
        page = await api.feed(keen, limit="50")
        shown = [int(item["id"]) for item in page["items"]]
        assert shown[0] == post, "also to whom it is that follows so many"

    await settled(mesh)
    assert await stored.timeline_ids(keen) == (await truth_of(mesh, keen))[:LENGTH] == [post, *written][:LENGTH]
    assert await differences(mesh, api, [keen, other], 50) == []
