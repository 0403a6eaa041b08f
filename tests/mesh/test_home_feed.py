"""What people see in their feeds after they, and others, have changed their minds: warm and cold, settled and at once."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
import pytest
from devmesh.mesh import Mesh
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed_api import FeedApi
from feedctl.oracle import faults
from feedkit.cursor import Position
from limits import LENGTH, THRESHOLD
from settling import settled
from stored_keys import StoredKeys
from timelines import posts_in_turn, users, warmed
from walks import differences, each, short_pages, truth_of

pytestmark = pytest.mark.integration


def ids(page: dict[str, Any]) -> list[int]:
    """The posts of a page."""
    return [int(item["id"]) for item in page["items"]]


async def reader_of(mesh: Mesh, api: FeedApi, stored: StoredKeys, *, posts: int) -> tuple[int, int, list[int]]:
    """A warm viewer, the one author whom they follow, and the author's posts, newest first."""
    viewer, author = await users(api, "Person", 2)
    await api.follow(viewer, author)
    await warmed(mesh, api, stored, [viewer])
    written = await posts_in_turn(api, [author], posts)
    await settled(mesh)
    return viewer, author, written


async def test_an_unfollowed_authors_posts_leave_and_come_back_at_their_place(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [viewer], authors = await users(api, "Viewer", 1), await users(api, "Author", 3)
    ordinary, other, celebrity = authors
    fans = await users(api, "Fan", THRESHOLD)
    await each(fans, lambda fan: api.follow(fan, celebrity))
    await api.follow_many(viewer, authors)
    await warmed(mesh, api, stored, [viewer])
    written = await posts_in_turn(api, authors, 15)
    await settled(mesh)
    by_author = {author: written[2 - place :: 3] for place, author in enumerate(authors)}

    async def assert_shows(*shown: int) -> None:
        expected = sorted(itertools.chain.from_iterable(by_author[author] for author in shown), reverse=True)
        for limit in (50, 7):
            walked = await api.walk_feed(viewer, limit)
            assert faults(expected, walked) + short_pages(walked) == []
        assert await truth_of(mesh, viewer) == expected

    await assert_shows(ordinary, other, celebrity)
    for leaving, staying in ((ordinary, (other, celebrity)), (celebrity, (other,))):
        await api.unfollow(viewer, leaving)
        await assert_shows(*staying)  # at once
        await settled(mesh)
        await assert_shows(*staying)  # warm
    await stored.delete_viewer(viewer)
    await assert_shows(other)  # cold
    await warmed(mesh, api, stored, [viewer])
    await api.follow(viewer, ordinary)
    await settled(mesh)
    await assert_shows(ordinary, other)
    await api.follow(viewer, celebrity)
    await settled(mesh)
    await assert_shows(ordinary, other, celebrity)
    await stored.delete_viewer(viewer)
    await assert_shows(ordinary, other, celebrity)


async def test_deleted_posts_are_gone_at_once_and_break_no_page(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    viewer, author, written = await reader_of(mesh, api, stored, posts=3 * LENGTH)
    first_and_last_of_a_page = [written[40], written[49]]
    for deleted in ([written[5]], written[10:30], first_and_last_of_a_page):
        await each(deleted, lambda post: api.delete_post(author, post))
        written = [post for post in written if post not in deleted]
        for limit in (50, 10):
            walked = await api.walk_feed(viewer, limit)
            assert faults(written, walked) + short_pages(walked) == []
    await settled(mesh)
    assert await differences(mesh, api, [viewer, author], 10) == []


async def test_a_feed_goes_on_to_its_end_though_every_third_post_was_deleted(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    viewer, author, written = await reader_of(mesh, api, stored, posts=3 * LENGTH)
    await each(written[::3], lambda post: api.delete_post(author, post))
    assert await differences(mesh, api, [viewer], 15) == []  # straight after
    await settled(mesh)
    assert await differences(mesh, api, [viewer], 15) == []  # warm
    await stored.delete_viewer(viewer)
    assert await differences(mesh, api, [viewer], 15) == []  # cold


async def left_alone(stored: StoredKeys, viewer: int) -> None:
    """The viewer's keys stay."""


async def gone_cold(stored: StoredKeys, viewer: int) -> None:
    """The viewer's keys vanish."""
    await stored.delete_viewer(viewer)


@pytest.mark.parametrize("befallen", [left_alone, gone_cold])
async def test_a_cursor_is_a_position_though_its_post_is_gone(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, befallen: Callable[[StoredKeys, int], Awaitable[None]]
) -> None:
    viewer, author, written = await reader_of(mesh, api, stored, posts=2 * LENGTH)
    page = await api.feed(viewer, limit="10")
    assert ids(page) == written[:10]
    whose_cursor, rest_of_the_page = written[9:10], written[:9]
    for deleted, top in ((whose_cursor, written[0]), (rest_of_the_page, written[10])):
        await each(deleted, lambda post: api.delete_post(author, post))
        await befallen(stored, viewer)
        assert ids(await api.feed_page(viewer, 10, page["nextCursor"])) == written[10:20]
        assert ids(await api.feed(viewer, limit="1")) == [top]


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_walks_end_at_every_length_around_that_of_a_page(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, extra: int
) -> None:
    viewer, _, written = await reader_of(mesh, api, stored, posts=10 + extra)
    for limit in (10, 5, 1):
        walked = await api.walk_feed(viewer, limit)
        assert faults(written, walked) + short_pages(walked) == []
    last = await api.feed_page(viewer, 10, str(Position.of(written[-1])))
    assert last["items"] == []
    assert "nextCursor" not in last


async def test_pages_do_not_shift_while_posts_come_and_go(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    [viewer, writer, deleter, celebrity], fans = await users(api, "Person", 4), await users(api, "Fan", THRESHOLD)
    await each(fans, lambda fan: api.follow(fan, celebrity))
    await api.follow_many(viewer, [writer, deleter, celebrity])
    await warmed(mesh, api, stored, [viewer])
    await posts_in_turn(api, [writer, celebrity], 2 * LENGTH)
    doomed = await posts_in_turn(api, [deleter], LENGTH)
    await settled(mesh)
    lasting = [post for post in await truth_of(mesh, viewer) if post not in doomed]

    arrived: list[int] = []
    walking = True

    async def write() -> None:
        for author in itertools.cycle([writer, celebrity]):
            if not walking:
                break
            arrived.append(int((await api.create_post(author, "While they read"))["id"]))
            await asyncio.sleep(1 / 20)

    async def delete() -> None:
        for post in doomed:
            await api.delete_post(deleter, post)
            await asyncio.sleep(1 / 20)

    async def walk(limit: int) -> None:
        walked = (await api.walk_feed(viewer, limit)).post_ids
        assert walked == sorted(set(walked), reverse=True)
        assert [post for post in walked if post in set(lasting)] == lasting
        top = max(walked[:limit])
        assert all(post <= top for post in walked)

    async def look_at_the_top() -> None:
        # No more than Redis holds: a timeline that is found short is made anew, and meanwhile the feed is pulled, which
        # shows posts a moment before they are pushed.
        seen: set[int] = set()
        while walking:
            shown = ids(await api.feed(viewer, limit="10"))
            vanished = {post for post in seen - set(shown) - set(doomed) if post > shown[-1]}
            assert not vanished
            seen |= set(shown)

    async def walk_often() -> None:
        nonlocal walking
        try:
            for limits in ((10, 10, 7), (10, 3, 20), (10, 10, 7)):
                await asyncio.gather(*map(walk, limits))
        finally:
            walking = False

    await asyncio.gather(write(), delete(), look_at_the_top(), walk_often())
    assert len(arrived) > 5
    await settled(mesh)
    assert await differences(mesh, api, [viewer], 10) == []


async def test_hydration_answers_once_for_each_id_and_marks_what_is_missing(mesh: Mesh, api: FeedApi) -> None:
    author = await api.create_user("Author")
    written = await posts_in_turn(api, [author], 3)
    await api.delete_post(author, written[1])
    asked = [written[0], written[1], 2**62, written[2], written[0]]
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["hydrate"]) as channel:
        answer = await hydrate_pb2_grpc.HydrateServiceStub(channel).HydratePosts(
            hydrate_pb2.HydratePostsRequest(viewer_id=author, post_ids=asked), timeout=5
        )
    outcomes = [(hydration.post_id, hydration.WhichOneof("outcome")) for hydration in answer.hydrations]
    assert outcomes == [(written[0], "post"), (written[1], "withheld"), (2**62, "withheld"), (written[2], "post")]
