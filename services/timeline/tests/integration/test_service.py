"""Home timelines through real processes: cold reads, bad requests, and services that are down or hang."""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

import asyncpg
import pytest
from devmesh.mesh import Mesh
from feed.timeline.v1 import timeline_pb2
from feedkit.cursor import MAX_ID, Position
from feedkit.errors import DeadlineExceeded, InvalidArgument, NotFound, Unavailable

from .conftest import Services

pytestmark = pytest.mark.integration


@contextmanager
def down(mesh: Mesh, process: str) -> Generator[None]:
    """A process that has been killed, until the end of the block."""
    mesh.kill(process)
    try:
        yield
    finally:
        mesh.restart(process)


@contextmanager
def hanging(mesh: Mesh, process: str) -> Generator[None]:
    """A process that takes calls and answers none, until the end of the block."""
    pid = mesh.addresses.pids[process]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def crowd(services: Services, rounds: int) -> tuple[int, list[int], list[int]]:
    """A viewer, three whom they follow, and what all four wrote by turns, newest first. A stranger writes too."""
    viewer, stranger = await services.user("Vic"), await services.user("Sam")
    followees = [await services.user(name) for name in ("Ann", "Bob", "Cem")]
    for followee in followees:
        await services.follow(viewer, followee)
    written: list[int] = []
    for _ in range(rounds):
        await services.posted(stranger)
        written += [await services.posted(author) for author in (*followees, viewer)]
    return viewer, followees, written[::-1]


# --- reads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 20, 50])
async def test_a_cold_walk_shows_followees_and_self_newest_first(services: Services, size: int) -> None:
    viewer, _, written = await crowd(services, 5)
    pages = await services.walk(viewer, size)
    assert pages == [written[first : first + size] for first in range(0, len(written), size)]


async def test_posts_come_whole_and_with_their_authors_names(services: Services) -> None:
    viewer = await services.user("Vic")
    await services.posted(viewer, "hello 👋")
    (shown,) = (await services.page(viewer)).posts
    assert (shown.post.content, shown.post.author_id, shown.author_name) == ("hello 👋", viewer, "Vic")


async def test_a_viewer_without_posts_gets_an_empty_page_that_is_the_end(services: Services) -> None:
    page = await services.page(await services.user())
    assert page == timeline_pb2.GetHomeTimelineResponse(view=timeline_pb2.VIEW_LATEST)


async def test_unfollow_and_follow_show_on_the_next_read(services: Services) -> None:
    viewer, (ann, *_), written = await crowd(services, 2)
    await services.unfollow(viewer, ann)
    without = [post for page in await services.walk(viewer) for post in page]
    await services.follow(viewer, ann)
    assert without == [post for index, post in enumerate(written) if index % 4 != 3]
    assert await services.walk(viewer) == [written], "back at their place in time"


async def test_a_deleted_post_is_gone_from_the_next_read_and_its_cursor_stays_good(services: Services) -> None:
    viewer, _, written = await crowd(services, 2)
    first = await services.page(viewer, page_size=5)
    assert first.next_page_token == str(Position.of(written[4]))
    await services.delete(viewer, written[4])
    assert await services.walk(viewer, 5, first.next_page_token) == [written[5:]]
    assert await services.walk(viewer) == [written[:4] + written[5:]]


async def test_a_mute_and_its_end_show_on_the_next_read(services: Services) -> None:
    viewer, (ann, *_), written = await crowd(services, 2)
    await services.mute(viewer, ann)
    assert await services.walk(viewer) == [[post for index, post in enumerate(written) if index % 4 != 3]]
    await services.unmute(viewer, ann)
    assert await services.walk(viewer) == [written]


@pytest.mark.parametrize("by", ["the viewer", "the author"])
async def test_a_block_shows_on_the_next_read(services: Services, by: str) -> None:
    viewer, (ann, *_), written = await crowd(services, 2)
    await services.walk(viewer)
    await services.block(*((viewer, ann) if by == "the viewer" else (ann, viewer)))
    assert await services.walk(viewer) == [[post for index, post in enumerate(written) if index % 4 != 3]]


@pytest.mark.parametrize("whose", ["a followee's", "the viewer's"])
async def test_a_suspension_and_its_end_show_on_the_next_read(services: Services, whose: str) -> None:
    viewer, (ann, *_), written = await crowd(services, 2)
    user, place = (ann, 3) if whose == "a followee's" else (viewer, 0)
    await services.suspend(user)
    assert await services.walk(viewer) == [[post for index, post in enumerate(written) if index % 4 != place]]
    await services.restore(user)
    assert await services.walk(viewer) == [written]


async def test_a_page_is_full_though_hundreds_of_the_newest_posts_are_of_a_suspended_followee(
    mesh: Mesh, services: Services
) -> None:
    viewer, (ann, *_), written = await crowd(services, 8)
    last = await services.posted(ann)
    connection = await asyncpg.connect(mesh.addresses.postgres["post"])
    try:
        # As if Ann had written a thousand more posts in the same second.
        await connection.execute(
            "INSERT INTO posts (id, author_id, content, media)"
            " SELECT $1::bigint + n, $2, 'spam', '[]' FROM generate_series(1, 1000) n",
            last,
            ann,
        )
    finally:
        await connection.close()
    await services.suspend(ann)
    expected = [post for index, post in enumerate(written) if index % 4 != 3]
    assert await services.walk(viewer, 20) == [expected[:20], expected[20:]]


async def test_page_sizes_are_clamped(services: Services) -> None:
    viewer, _, _ = await crowd(services, 13)
    for asked, given in ((0, 20), (50, 50), (51, 50), (2**31 - 1, 50)):
        assert len((await services.page(viewer, page_size=asked)).posts) == given


@pytest.mark.parametrize("token", ["0:0", "5:3", "0:9223372036854775807"])
async def test_a_position_before_all_time_is_the_end_and_not_the_top(services: Services, token: str) -> None:
    viewer, _, _ = await crowd(services, 1)
    assert await services.walk(viewer, page_token=token) == [[]]


async def test_a_position_after_all_time_is_the_top(services: Services) -> None:
    viewer, _, written = await crowd(services, 1)
    assert await services.walk(viewer, page_token=f"{MAX_ID}:{MAX_ID}") == [written]


async def test_the_position_of_the_last_post_leads_to_an_empty_page(services: Services) -> None:
    viewer, _, written = await crowd(services, 1)
    assert await services.walk(viewer, page_token=str(Position.of(written[-1]))) == [[]]


async def test_a_read_is_recorded_as_activity(mesh: Mesh, services: Services) -> None:
    viewer = await services.user()
    await services.page(viewer)
    connection = await asyncpg.connect(mesh.addresses.postgres["graph"])
    try:
        for _ in range(200):
            if await connection.fetchval("SELECT count(*) FROM activity WHERE user_id = $1", viewer):
                return
            await asyncio.sleep(0.05)
    finally:
        await connection.close()
    pytest.fail("no activity after 10 s")


# --- bad requests ----------------------------------------------------------------------------------------------------


async def test_an_unknown_viewer_is_not_found(services: Services) -> None:
    with pytest.raises(NotFound) as refused:
        await services.page(MAX_ID)
    assert (refused.value.reason, refused.value.metadata["user_id"]) == ("USER_NOT_FOUND", str(MAX_ID))


@pytest.mark.parametrize(
    "token",
    [
        *("...", "abc", ":", "1:", ":1", "1:2:3", "-1:-1", "+1:1", " 1:1", "1:1 ", "1:1\n", "01:1", "1.0:1", "1e3:1"),
        *("١:١", "1:1\0", "r:snapshot:0", f"{MAX_ID + 1}:1", f"1:{MAX_ID + 1}", "1" * 10_000),
    ],
    ids=lambda token: repr(token)[:20],
)
async def test_a_junk_token_is_refused_and_named(services: Services, token: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await services.page(await services.user(), page_token=token)
    assert [violation.field for violation in refused.value.violations] == ["page_token"]


@pytest.mark.parametrize(
    ("request_fields", "field"),
    [
        ({"viewer_id": 0}, "viewer_id"),
        ({"viewer_id": -1}, "viewer_id"),
        ({"page_size": -1}, "page_size"),
        ({"view": 9}, "view"),
    ],
)
async def test_a_bad_field_is_refused_and_named(services: Services, request_fields: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await services.page(**{"viewer_id": 1, **request_fields})
    assert [violation.field for violation in refused.value.violations] == [field]


# --- services that are away ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dependency", ["graph", "post", "hydrate"])
async def test_without_a_service_a_read_is_unavailable_and_recovers_unaided(
    mesh: Mesh, services: Services, dependency: str
) -> None:
    viewer, _, written = await crowd(services, 1)
    with down(mesh, dependency):
        with pytest.raises(Unavailable) as refused:
            await services.page(viewer, seconds=5.0)
        assert refused.value.metadata == {"dependency": dependency}
    for _ in range(200):
        try:
            assert await services.walk(viewer) == [written]
        except Unavailable:
            await asyncio.sleep(0.05)
        else:
            return
    pytest.fail("still unavailable after 10 s")


@pytest.mark.parametrize("dependency", ["graph", "post", "hydrate"])
async def test_a_service_that_hangs_fails_the_read_within_its_deadline(
    mesh: Mesh, services: Services, dependency: str
) -> None:
    viewer, _, written = await crowd(services, 1)
    with hanging(mesh, dependency), pytest.raises(DeadlineExceeded):
        await services.page(viewer, seconds=1.0)
    assert await services.walk(viewer) == [written]


async def test_it_stops_in_order_when_asked(mesh: Mesh, services: Services) -> None:
    viewer = await services.user()
    await services.page(viewer)
    try:
        assert mesh.terminate("timeline") == 0
    finally:
        mesh.restart("timeline")
