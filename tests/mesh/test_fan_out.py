"""How posts get into home timelines: quickly, completely, once, and whatever happens to those who bring them there."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedkit import keys
from freshness import percentile, visible_ms
from limits import LENGTH, REBUILD_PAUSE_SECONDS, THRESHOLD
from outages import killed, silent, stopped
from polling import until
from settling import open_chunks, settled
from stored_keys import StoredKeys
from timelines import posts_in_turn, until_standing, users, warmed
from walks import differences, each, truth_of

pytestmark = pytest.mark.integration

VISIBLE_MS = 5_000
"""The freshness that is promised in normal running; what is usual is a thirtieth of it, see `make bench`."""


async def test_a_post_is_soon_visible_to_a_follower(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    authors, [follower] = await users(api, "Author", 10), await users(api, "Follower", 1)
    await api.follow_many(follower, authors)
    await warmed(mesh, api, stored, [follower])
    took = await visible_ms(api, authors=authors, follower=follower, per_second=20, posts=60)
    print(f"\nvisible after: p50 {percentile(took, 50):.0f} ms, p99 {percentile(took, 99):.0f} ms")
    assert max(took) < VISIBLE_MS
    await settled(mesh)
    # The follower saw them because they were pushed, not because the feed was pulled.
    assert await stored.timeline_ids(follower) == (await truth_of(mesh, follower))[:LENGTH]


@pytest.mark.timeout(600)
async def test_ones_own_post_is_on_top_of_the_very_next_read_though_fan_out_is_down(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [quiet], authors = await users(api, "Quiet", 1), await users(api, "Author", 10)
    await posts_in_turn(api, [quiet], 3)
    await each(authors, lambda author: api.follow(author, quiet))
    await warmed(mesh, api, stored, authors)

    async def write_and_look(author: int) -> None:
        for number in range(100):
            created = await api.create_post(author, f"Post {number}")
            page = await api.feed(author, limit="1")
            assert [item["id"] for item in page["items"]] == [created["id"]]

    async with stopped(mesh, "fanout"):
        await each(authors, write_and_look)
        assert await differences(mesh, api, authors, 50) == []
    await settled(mesh)
    assert await differences(mesh, api, authors, 50) == []


async def test_what_was_written_while_fan_out_was_down_is_delivered_when_it_comes(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    authors, followers = await users(api, "Author", 2), await users(api, "Follower", THRESHOLD - 1)
    await each(followers, lambda follower: api.follow_many(follower, authors))
    await warmed(mesh, api, stored, followers)
    async with stopped(mesh, "fanout", "post-relay", "graph-relay"):
        written = await posts_in_turn(api, authors, 8)
    await settled(mesh)
    for follower in followers:
        assert await stored.timeline_ids(follower) == written


async def test_what_was_written_while_kafka_was_silent_is_delivered_when_it_answers(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    authors, followers = await users(api, "Author", 3), await users(api, "Follower", THRESHOLD - 1)
    await each(followers, lambda follower: api.follow_many(follower, authors[:2]))
    await warmed(mesh, api, stored, followers)
    async with silent(mesh, "kafka"):
        written = await posts_in_turn(api, authors, 6)
        await each(followers, lambda follower: api.follow(follower, authors[2]))
        # Whoever wrote sees it, whoever follows does not yet.
        assert (await api.feed(authors[2], limit="1"))["items"][0]["id"] == str(written[0])
    await settled(mesh)
    for follower in followers:
        assert await stored.timeline_ids(follower) == written
    assert await differences(mesh, api, followers, 7) == []


@asynccontextmanager
async def writing(api: FeedApi, authors: list[int], per_second: float) -> AsyncGenerator[list[int]]:
    """The authors post in turn within the block; the ids of what was acknowledged, oldest first."""
    created: list[int] = []
    enough = asyncio.Event()

    async def write() -> None:
        for number, author in enumerate(itertools.cycle(authors)):
            if enough.is_set():
                break
            created.append(int((await api.create_post(author, f"Post {number}"))["id"]))
            await asyncio.sleep(1 / per_second)

    task = asyncio.create_task(write())
    try:
        yield created
    finally:
        enough.set()
        await task


async def more(written: list[int], count: int) -> None:
    """Return when so many more posts are written."""
    enough = len(written) + count

    async def reached() -> bool:
        return len(written) >= enough

    await until(reached, f"{count} more posts")


async def assert_materialised(mesh: Mesh, stored: StoredKeys, followers: list[int]) -> None:
    """These followers, who follow pushed authors only and write nothing, have in Redis what they promise to have."""
    for follower in followers:
        tail, truth = await stored.timeline(follower), await truth_of(mesh, follower)
        assert tail is not None
        above = [post for post in await stored.timeline_ids(follower) if post > tail.trailer.horizon]
        assert above
        assert above == [post for post in truth if post > tail.trailer.horizon]
        assert tail.length <= LENGTH


@pytest.mark.timeout(600)
async def test_nothing_is_lost_when_fan_out_is_killed_among_open_chunks(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    authors, followers = await users(api, "Author", 5), await users(api, "Follower", THRESHOLD - 1)
    await each(followers, lambda follower: api.follow_many(follower, authors))
    await warmed(mesh, api, stored, followers)

    async def among_chunks() -> bool:
        return await open_chunks(mesh) > 0

    for _ in range(2):
        async with writing(api, authors, per_second=100):
            await until(among_chunks, "an open chunk")
            await killed(mesh, "fanout")
        await settled(mesh)
        await assert_materialised(mesh, stored, followers)
        assert await differences(mesh, api, followers, 7) == []


@pytest.mark.timeout(600)
async def test_nothing_is_lost_when_relays_are_killed_while_people_write(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    authors, followers = await users(api, "Author", 5), await users(api, "Follower", THRESHOLD - 1)
    await each(followers, lambda follower: api.follow_many(follower, authors[:4]))
    await warmed(mesh, api, stored, followers)

    async def change_their_minds(leaving: int, joining: int) -> None:
        for follower in followers:
            await api.unfollow(follower, leaving)
            await api.follow(follower, joining)

    async with writing(api, authors, per_second=50) as written:
        changes = zip(authors[:3], [authors[4], *authors[:2]], strict=True)
        for relay, (leaving, joining) in zip(("post-relay", "graph-relay", "post-relay"), changes, strict=True):
            await killed(mesh, relay)
            await change_their_minds(leaving, joining)
            await more(written, 20)
    await settled(mesh)
    await assert_materialised(mesh, stored, followers)
    assert await differences(mesh, api, followers, 20) == []


@pytest.mark.timeout(600)
async def test_the_length_of_timelines_may_be_changed_while_they_stand(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    authors, [follower] = await users(api, "Author", 3), await users(api, "Follower", 1)
    await api.follow_many(follower, authors)
    await posts_in_turn(api, authors, LENGTH)
    await warmed(mesh, api, stored, [follower])
    try:
        for length in (LENGTH // 2, 2 * LENGTH):
            await asyncio.to_thread(mesh.terminate, "fanout")
            await asyncio.to_thread(mesh.restart, "fanout", {"FEED_TIMELINE_LENGTH": str(length)})
            assert await differences(mesh, api, [follower], 7) == []
            await posts_in_turn(api, authors, 1)
            await settled(mesh)
            held = await stored.timeline_ids(follower)
            assert held == (await truth_of(mesh, follower))[: len(held)]
            assert len(held) <= length
            assert await differences(mesh, api, [follower], 7) == []

            await asyncio.sleep(REBUILD_PAUSE_SECONDS)
            await stored.delete(keys.timeline(follower))
            assert await differences(mesh, api, [follower], 7) == []
            await until_standing(stored, [follower])
            await settled(mesh)
            assert await stored.timeline_ids(follower) == (await truth_of(mesh, follower))[:length]
            assert await differences(mesh, api, [follower], 7) == []
    finally:
        if "fanout" in mesh.addresses.pids:
            await asyncio.to_thread(mesh.terminate, "fanout")
        await asyncio.to_thread(mesh.restart, "fanout", {"FEED_TIMELINE_LENGTH": str(LENGTH)})


async def test_an_author_who_becomes_a_celebrity_while_writing_is_complete_in_every_feed(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    author, other = await users(api, "Author", 2)
    early, late = await users(api, "Early", THRESHOLD - 1), await users(api, "Late", 3)
    await each([*early, *late], lambda viewer: api.follow(viewer, other))
    await each(early, lambda viewer: api.follow(viewer, author))
    await warmed(mesh, api, stored, [*early, *late])
    await posts_in_turn(api, [author, other], 4)
    async with writing(api, [author, other], per_second=50) as written:
        for viewer in late:
            await api.follow(viewer, author)
            await more(written, 10)
    await settled(mesh)
    for limit in (50, 7, 1):
        assert await differences(mesh, api, [*early, *late], limit) == []
    # The author's latest is pushed to nobody, and still everybody sees it.
    latest = int((await api.create_post(author, "Now pulled"))["id"])
    await settled(mesh)
    for viewer in [*early, *late]:
        assert latest not in await stored.timeline_ids(viewer)
        assert int((await api.feed(viewer, limit="1"))["items"][0]["id"]) == latest


async def test_the_follow_that_makes_an_author_a_celebrity_brings_what_they_wrote(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [author, quiet, viewer], followers = await users(api, "Person", 3), await users(api, "Follower", THRESHOLD - 1)
    await each(followers, lambda follower: api.follow(follower, author))
    written = await posts_in_turn(api, [author], 5)
    await api.follow(viewer, quiet)
    await posts_in_turn(api, [quiet], 1)
    await warmed(mesh, api, stored, [viewer])
    await api.follow(viewer, author)
    await settled(mesh)
    assert set(written) < set(await truth_of(mesh, viewer))
    assert await differences(mesh, api, [viewer], 50) == []
