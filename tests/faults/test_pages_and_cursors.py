"""What pages and cursors of others were reported to have done to their readers, and must not here.

Counts are scaled to the small limits of the shared mesh: a timeline holds 20 posts, and 4 followers make a celebrity.
"""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import httpx
import pytest
from devmesh.mesh import Mesh
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feed_api import FeedApi
from feedkit import status
from feedkit.cursor import Position
from ledger import Ledger
from limits import THRESHOLD
from replicas import several_timelines
from settling import settled
from stored_keys import StoredKeys
from timelines import warmed
from walks import each

pytestmark = pytest.mark.integration

Item = TypeVar("Item")


@pytest.fixture
def ledger(api: FeedApi) -> Ledger:
    return Ledger(api)


def ids(page: dict[str, Any]) -> list[int]:
    """The posts of a page."""
    return [int(item["id"]) for item in page["items"]]


async def reader_of(mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger, *, posts: int) -> tuple[int, int]:
    """A warm viewer, and the one author whom they follow, who has written so many posts."""
    viewer, author = await ledger.users("Person", 2)
    await ledger.follow(viewer, author)
    await warmed(mesh, api, stored, [viewer])
    await ledger.posts_at_once(author, posts)
    await settled(mesh)
    return viewer, author


# --- HAND-06 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
async def test_hand_06_a_cursor_is_a_position_though_its_post_its_author_and_its_page_are_gone(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger, cold: bool
) -> None:
    """A cursor whose row had vanished led nowhere, to a crash or to the top. It has to lead to what is older."""
    [viewer], authors = await ledger.users("Viewer", 1), await ledger.users("Author", 3)
    await ledger.follow(viewer, *authors)
    await warmed(mesh, api, stored, [viewer])
    await ledger.posts_in_turn(authors, 14)
    await settled(mesh)
    page = await api.feed(viewer, limit="10")
    assert ids(page) == ledger.expected(viewer)[:10]
    last = ids(page)[-1]

    async def follow_the_cursor() -> None:
        for limit in (10, 3, 50):
            if cold:
                await stored.delete_viewer(viewer)
            await ledger.check_below(viewer, page["nextCursor"], limit)

    await follow_the_cursor()
    await ledger.delete(last)
    await follow_the_cursor()
    await ledger.delete_account(mesh, ledger.author_of(last))
    await follow_the_cursor()
    await ledger.delete(*(post for post in ids(page) if post in ledger.expected(viewer)))
    await follow_the_cursor()
    await settled(mesh)
    await follow_the_cursor()
    await ledger.check(viewer, 10)


# --- HAND-07 -----------------------------------------------------------------------------------------------------------

JUNK_CURSORS = ("...", "abc", ":", "1:", ":1", "1:2:3", "-1:-1", "x" * 10_240)
JUNK_LIMITS = ("0", "-1", "ten", "5.0")
LIMITS = {"1": 1, "50": 50, "51": 50, "1000000": 50}


async def much_read(ledger: Ledger) -> int:
    """Somebody who has more than a page of everything that comes in pages."""
    [person], others = await ledger.users("Person", 1), await ledger.users("Other", 55)
    await each(others, lambda other: ledger.follow(other, person))
    await each(others, lambda other: ledger.follow(person, other))
    await ledger.posts_at_once(person, 55)
    return person


def paged(person: int) -> list[str]:
    """Everything that comes in pages."""
    lists = ("posts", "followers", "following")
    return ["/api/feed", *(f"/api/users/{person}/{which}" for which in lists), "/api/blocks", "/api/mutes"]


def assert_names(answer: httpx.Response, parameter: str) -> None:
    """The answer is a 400 in the one shape of errors, and names the parameter."""
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem.keys() == {"type", "title", "status", "detail", "reason", "errors", "traceId"}
    assert problem["status"] == 400
    assert [error["field"] for error in problem["errors"]] == [parameter]


async def test_hand_07_junk_cursors_and_limits_are_refused_by_http_and_no_page_is_too_long(
    api: FeedApi, ledger: Ledger
) -> None:
    """Junk gave a 500 or looked like an empty feed, an empty parameter was refused in one place only, and pages held one
    more than was asked for.
    """
    person = await much_read(ledger)
    for path in paged(person):
        for cursor in JUNK_CURSORS:
            assert_names(await api.call("GET", path, viewer=person, params={"cursor": cursor}), "cursor")
        for limit in JUNK_LIMITS:
            assert_names(await api.call("GET", path, viewer=person, params={"limit": limit}), "limit")
        absent = await api.get(path, viewer=person)
        assert await api.get(path, viewer=person, cursor="", limit="") == absent
        full = path not in ("/api/blocks", "/api/mutes")
        assert len(absent["items"]) == (20 if full else 0)
        for limit, most in LIMITS.items():
            assert len((await api.get(path, viewer=person, limit=limit))["items"]) == (most if full else 0)


async def test_hand_07_junk_cursors_and_limits_are_refused_by_grpc_and_no_page_is_too_long(
    mesh: Mesh, ledger: Ledger
) -> None:
    """The same, asked of the service itself, where 0 and empty stand for absent."""
    person = await much_read(ledger)
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["timeline"]) as channel:
        timeline = timeline_pb2_grpc.TimelineServiceStub(channel)

        async def page(size: int = 0, token: str = "") -> timeline_pb2.GetHomeTimelineResponse:
            request = timeline_pb2.GetHomeTimelineRequest(viewer_id=person, page_size=size, page_token=token)
            return await timeline.GetHomeTimeline(request, timeout=5)

        junk = [("page_token", 0, cursor) for cursor in JUNK_CURSORS] + [("page_size", -1, "")]
        for field, size, token in junk:
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await page(size, token)
            assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            error = status.from_rpc_error(refusal.value, "timeline")
            assert [violation.field for violation in error.violations] == [field]
        assert len((await page()).posts) == 20
        for limit, most in LIMITS.items():
            assert len((await page(int(limit))).posts) == most


# --- HAND-08 -----------------------------------------------------------------------------------------------------------


async def test_hand_08_a_feed_does_not_stop_where_posts_were_deleted(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """A page that filtering had made short came without a cursor, and readers stopped though older posts were there."""
    viewer, _ = await reader_of(mesh, api, stored, ledger, posts=200)
    written = ledger.expected(viewer)
    await ledger.delete(*random.Random(8).sample(written, len(written) // 3))
    await ledger.check(viewer, 30)  # straight after
    await settled(mesh)
    await ledger.check(viewer, 30)
    await warmed(mesh, api, stored, [viewer])
    await ledger.check(viewer, 30)  # warm
    await ledger.check_cold(stored, viewer, 30)


# --- HAND-09 -----------------------------------------------------------------------------------------------------------

PAGE_LENGTHS = (1, 10, 50)
FEED_LENGTHS = sorted({around for page in PAGE_LENGTHS for around in (0, 1, page - 1, page, page + 1, 2 * page)})


async def test_hand_09_every_feed_ends_at_every_length_around_that_of_a_page(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """The last page offered a cursor again, sometimes the same, and readers went round for ever. The end has to come after
    one request more than there are pages, and nothing lies below a cursor made of the last post.
    """
    viewers, authors = await ledger.users("Viewer", len(FEED_LENGTHS)), await ledger.users("Author", len(FEED_LENGTHS))
    for viewer, author in zip(viewers, authors, strict=True):
        await ledger.follow(viewer, author)
    await warmed(mesh, api, stored, viewers)
    for author, length in zip(authors, FEED_LENGTHS, strict=True):
        await ledger.posts_at_once(author, length)
    await settled(mesh)

    async def check(viewer: int) -> None:
        await ledger.check(viewer, *PAGE_LENGTHS)
        await ledger.check_cold(stored, viewer, 10)
        for last in ledger.expected(viewer)[-1:]:
            page = await api.feed_page(viewer, 10, str(Position.of(last)))
            assert page == {"items": [], "view": "latest", "notice": None, "insertions": []}

    await each(viewers, check)


# --- HAND-10 -----------------------------------------------------------------------------------------------------------

WALKERS = 20


async def ticking(items: Iterable[Item]) -> AsyncGenerator[Item]:
    """The items, 20 a second as far as those who take them are so quick."""
    started_at = time.monotonic()
    for number, item in enumerate(items):
        await asyncio.sleep(started_at + number / 20 - time.monotonic())
        yield item


class Crowd:
    """Who reads while others write and delete."""

    def __init__(self, api: FeedApi, lasting: Sequence[int], doomed: Sequence[int]) -> None:
        self._api = api
        self._lasting = lasting
        self._doomed = set(doomed)
        self.reads = True

    async def walk(self, viewer: int, limit: int) -> None:
        """Walk once: all that stays is there, each once and in order, and nothing that came after the first page."""
        walked = await self._api.walk_feed(viewer, limit)
        shown = walked.post_ids
        assert shown == sorted(set(shown), reverse=True)
        assert [post for post in shown if post in set(self._lasting)] == self._lasting
        first = walked.pages[0]
        assert all(post < first[-1] for page in walked.pages[1:] for post in page)

    async def look_at_the_top(self, viewer: int) -> None:
        """Go back to the top again and again: nothing that was shown there vanishes, unless it was deleted."""
        # No more than a timeline holds: one that is found short is built anew, and meanwhile the feed is pulled, which
        # shows posts a moment before they are pushed.
        seen: set[int] = set()
        while self.reads:
            shown = ids(await self._api.feed(viewer, limit="10"))
            vanished = {post for post in seen - set(shown) - self._doomed if post > shown[-1]}
            assert not vanished
            seen |= set(shown)


@pytest.mark.timeout(600)
async def test_hand_10_pages_do_not_shift_while_posts_come_and_go_whichever_replica_answers(
    mesh: Mesh, stored: StoredKeys, tmp_path: Path
) -> None:
    """Between two pages posts came and went, so that readers met some twice and others never; and what one replica had
    shown another had not yet. 20 walk 200 posts at once, read from three processes in turn.
    """
    async with several_timelines(mesh, tmp_path, 2) as api:
        ledger = Ledger(api)
        [writer, deleter, famous, *viewers], fans = await ledger.users("Person", 6), await ledger.users("Fan", 2)
        assert len(viewers) < THRESHOLD <= len(viewers) + len(fans)
        await each(fans, lambda fan: ledger.follow(fan, famous))
        await each(viewers, lambda viewer: ledger.follow(viewer, writer, deleter, famous))
        await warmed(mesh, api, stored, viewers)
        await ledger.posts_at_once(deleter, 100)
        await ledger.posts_in_turn([writer, famous], 50)
        doomed = [post for post in ledger.expected(viewers[0]) if ledger.author_of(post) == deleter][:60]
        await settled(mesh)
        for viewer in viewers:
            await ledger.check(viewer, 10)
        lasting = [post for post in ledger.expected(viewers[0]) if post not in set(doomed)]
        crowd = Crowd(api, lasting, doomed)

        async def write() -> None:
            async for author in ticking(itertools.cycle([writer, famous])):
                if not crowd.reads:
                    break
                await ledger.post(author)

        async def delete() -> None:
            async for post in ticking(doomed):
                await ledger.delete(post)

        async def walk_together() -> None:
            try:
                walkers = zip(range(WALKERS), itertools.cycle(viewers), strict=False)
                await asyncio.gather(*(crowd.walk(viewer, 10) for _, viewer in walkers))
            finally:
                crowd.reads = False

        looks = [crowd.look_at_the_top(viewer) for viewer in viewers]
        await asyncio.gather(write(), delete(), *looks, walk_together())
        assert len(ledger.expected(viewers[0])) >= len(lasting) + 10
        await settled(mesh)
        for viewer in viewers:
            await ledger.check(viewer, 10)
