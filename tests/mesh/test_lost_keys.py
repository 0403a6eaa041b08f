"""Redis may lose anything at any time: no feed is short, empty or wrong for it, and soon it is as quick as before."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedkit import keys
from limits import LENGTH, REBUILD_PAUSE_SECONDS, THRESHOLD
from outages import dead, silent
from settling import settled
from stored_keys import StoredKeys
from timelines import posts_in_turn, until_standing, users, warmed
from walks import differences, each, truth_of

pytestmark = pytest.mark.integration


async def community(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> tuple[list[int], list[int]]:
    """Authors, one of whom is pulled, and viewers who follow all of them: longer feeds than Redis holds, all warm."""
    authors, viewers = await users(api, "Author", 4), await users(api, "Viewer", THRESHOLD - 1)
    fan = await api.create_user("Fan")
    await api.follow(fan, authors[0])
    await each(viewers, lambda viewer: api.follow_many(viewer, authors))
    await posts_in_turn(api, authors, LENGTH // 2)
    await each(viewers, lambda viewer: posts_in_turn(api, [viewer], 3))
    await warmed(mesh, api, stored, viewers)
    return authors, viewers


@asynccontextmanager
async def vanishing(stored: StoredKeys, *, per_second: float) -> AsyncGenerator[None]:
    """Within the block keys vanish at random."""
    dice = random.Random(4)
    enough = asyncio.Event()

    async def destroy() -> None:
        while not enough.is_set():
            # The one key that copies nothing: without it the mesh would say too early that it has settled.
            if names := sorted(set(await stored.names()) - {keys.PULLED_UNSEEN}):
                await stored.delete(dice.choice(names))
            await asyncio.sleep(1 / per_second)

    task = asyncio.create_task(destroy())
    try:
        yield
    finally:
        enough.set()
        await task


async def test_walks_are_right_while_keys_vanish_at_random(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    authors, viewers = await community(mesh, api, stored)
    async with vanishing(stored, per_second=200):
        for limit in (20, 7, 3) * 3:
            assert await differences(mesh, api, [*viewers, *authors], limit) == []


async def test_walks_are_right_while_keys_vanish_and_people_write(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    authors, viewers = await community(mesh, api, stored)
    async with vanishing(stored, per_second=100):
        for author in authors * 10:
            await api.create_post(author, "While keys vanish")
        await api.unfollow(viewers[0], authors[1])
    await settled(mesh)
    for limit in (50, 7):
        assert await differences(mesh, api, [*viewers, *authors], limit) == []


async def test_walks_are_right_at_once_when_all_keys_are_flushed_and_feeds_are_warm_again_soon(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    _, viewers = await community(mesh, api, stored)
    await asyncio.sleep(REBUILD_PAUSE_SECONDS)
    await stored.flush()
    assert await differences(mesh, api, viewers, 7) == []
    await until_standing(stored, viewers)
    await settled(mesh)
    for viewer in viewers:
        held, truth = await stored.timeline_ids(viewer), await truth_of(mesh, viewer)
        assert len(held) == LENGTH
        assert held == [post for post in truth if post in set(held)]
    assert await differences(mesh, api, viewers, 7) == []


@pytest.mark.parametrize("away", [dead, silent])
async def test_feeds_are_read_and_written_while_redis_is_away(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, away: Callable[[Mesh, str], AbstractAsyncContextManager[None]]
) -> None:
    authors, viewers = await community(mesh, api, stored)
    async with away(mesh, "redis"):
        assert await differences(mesh, api, viewers, 20) == []
        created = await api.create_post(viewers[0], "Without Redis")
        assert (await api.feed(viewers[0], limit="1"))["items"][0]["id"] == created["id"]
        await api.unfollow(viewers[0], authors[1])
        await api.delete_post(viewers[0], created["id"])
        await posts_in_turn(api, authors, 2)
        assert await differences(mesh, api, viewers, 20) == []
    await settled(mesh)
    assert await differences(mesh, api, viewers, 20) == []
    await warmed(mesh, api, stored, viewers)
    assert await differences(mesh, api, viewers, 20) == []
