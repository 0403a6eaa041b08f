"""Redis may lose anything at any time: no feed is short, empty or wrong for it, and soon it is as quick as before."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition
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

RECONCILE = "feed.reconcile.v1"


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


# --- somebody returns after a long time ---------------------------------------------------------------------------------


def wishes(mesh: Mesh) -> int:
    """How many rebuilds and reconciles have ever been asked for."""
    consumer = Consumer({"bootstrap.servers": mesh.addresses.kafka, "group.id": "tests"})
    try:
        partitions = consumer.list_topics(RECONCILE, timeout=10).topics[RECONCILE].partitions
        marks = [consumer.get_watermark_offsets(TopicPartition(RECONCILE, number), timeout=10) for number in partitions]
    finally:
        consumer.close()
    return sum(high for _, high in marks)


async def returning_viewer(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> tuple[int, list[int], list[int]]:
    """A viewer whose timeline is gone, the authors whom they follow, and what those wrote, newest first."""
    authors, [viewer] = await users(api, "Author", 5), await users(api, "Viewer", 1)
    await api.follow_many(viewer, authors)
    written = await posts_in_turn(api, authors, 8)
    await warmed(mesh, api, stored, [viewer])
    await asyncio.sleep(REBUILD_PAUSE_SECONDS)
    await stored.delete_viewer(viewer)
    return viewer, authors, written


async def first_page(api: FeedApi, viewer: int) -> list[int]:
    """What a viewer sees first, ten posts at most."""
    return [int(item["id"]) for item in (await api.feed(viewer, limit="10"))["items"]]


async def test_a_returning_viewer_gets_a_full_page_at_once_and_a_timeline_soon(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    viewer, _, written = await returning_viewer(mesh, api, stored)
    assert await first_page(api, viewer) == written[:10]
    await until_standing(stored, [viewer])
    await settled(mesh)
    assert await stored.timeline_ids(viewer) == written[:LENGTH]
    assert await differences(mesh, api, [viewer], 7) == []


async def test_a_returning_viewer_gets_older_posts_where_the_newest_were_deleted(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    viewer, authors, written = await returning_viewer(mesh, api, stored)
    deleted, kept = written[:30], written[30:]
    by_age = dict(zip(reversed(written), authors * 8, strict=True))
    await each(deleted, lambda post: api.delete_post(by_age[post], post))
    assert await first_page(api, viewer) == kept
    await until_standing(stored, [viewer])
    await settled(mesh)
    assert await first_page(api, viewer) == kept
    assert await stored.timeline_ids(viewer) == kept


async def test_fifty_first_reads_at_once_agree_and_ask_for_few_rebuilds(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    viewer, _, written = await returning_viewer(mesh, api, stored)
    before = await asyncio.to_thread(wishes, mesh)
    pages = await asyncio.gather(*(first_page(api, viewer) for _ in range(50)))
    assert pages == [written[:10]] * 50
    await until_standing(stored, [viewer])
    await settled(mesh)
    assert 1 <= await asyncio.to_thread(wishes, mesh) - before <= 3


async def test_who_follows_nobody_gets_an_empty_feed_that_is_never_rebuilt(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    loner = await api.create_user("Loner")
    await settled(mesh)
    before = await asyncio.to_thread(wishes, mesh)
    for _ in range(10):
        page = await api.feed(loner)
        assert page["items"] == []
        assert "nextCursor" not in page
    await settled(mesh)
    assert await asyncio.to_thread(wishes, mesh) == before
    assert await stored.life_ms(keys.timeline(loner)) == -2
