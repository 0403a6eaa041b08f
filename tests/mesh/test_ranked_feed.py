"""The ranked view through the whole mesh: the posts of LATEST in another order, which stands while it is read."""

import asyncio
import itertools
import random
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import limits
import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from polling import until
from replicas import several_timelines
from settling import settled
from stored_keys import StoredKeys
from timelines import posts_in_turn, users, warmed
from walks import each

pytestmark = pytest.mark.integration

CANDIDATES = 40
"""How many posts are ranked; the feeds here go on below."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """One of its own, in which little is ranked at a time, and timelines hold what is."""
    settings = {**limits.SETTINGS, "FEED_CANDIDATES": str(CANDIDATES), "FEED_TIMELINE_LENGTH": "60"}
    with Mesh(settings, directory=tmp_path_factory.mktemp("ranked")) as mesh:
        yield mesh


def ids(page: dict[str, Any]) -> list[int]:
    return [int(item["id"]) for item in page["items"]]


async def pages(api: FeedApi, viewer: int, limit: int = 10, **params: str) -> list[dict[str, Any]]:
    """The ranked view, page by page to its end."""
    read = [await api.feed(viewer, view="ranked", limit=str(limit), **params)]
    while "nextCursor" in read[-1]:
        assert len(read) < 100, "no end"
        read.append(await api.feed(viewer, view="ranked", limit=str(limit), cursor=read[-1]["nextCursor"], **params))
    return read


async def walked(api: FeedApi, viewer: int, limit: int = 10) -> list[int]:
    return [post for page in await pages(api, viewer, limit) for post in ids(page)]


async def audience(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, *, viewers: int = 1, authors: int = 6, each_posts: int = 10
) -> tuple[list[int], list[int], list[int]]:
    """Warm viewers, the authors whom all of them follow, and what these wrote, newest first."""
    readers, writers = await users(api, "Reader", viewers), await users(api, "Writer", authors)
    await each(readers, lambda reader: api.follow_many(reader, writers))
    await warmed(mesh, api, stored, readers)
    posts = await posts_in_turn(api, writers, each_posts)
    await settled(mesh)
    return readers, writers, posts


async def test_the_ranked_view_has_every_post_of_latest_exactly_once(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [viewer], _, posts = await audience(mesh, api, stored)

    read = await pages(api, viewer)

    assert [page["view"] for page in read] == ["ranked"] * (CANDIDATES // 10) + ["latest"] * (
        len(read) - CANDIDATES // 10
    )
    assert {page["notice"] for page in read} == {None}
    shown = [post for page in read for post in ids(page)]
    assert sorted(shown, reverse=True) == posts
    assert set(shown[:CANDIDATES]) == set(posts[:CANDIDATES])
    assert shown[CANDIDATES:] == posts[CANDIDATES:], "below the candidates it is LATEST"


async def test_what_a_viewer_likes_of_an_author_brings_the_author_up(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [viewer], [*_, liked], posts = await audience(mesh, api, stored)
    author_of = {int(item["id"]): int(item["authorId"]) for page in await pages(api, viewer) for item in page["items"]}
    theirs = [post for post in posts if author_of[post] == liked]

    for post in theirs[5:]:
        await api.engage(viewer, post, "like")

    async def is_near_the_top() -> bool:
        first = ids(await api.feed(viewer, view="ranked", limit="5"))
        return sum(author_of[post] == liked for post in first) >= 2

    await until(is_near_the_top, "two of the five best posts are of the author whom the viewer likes")


async def test_a_hidden_post_goes_last_and_stays_in_latest(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    [viewer], _, posts = await audience(mesh, api, stored, each_posts=5)
    [first, *_] = ids(await api.feed(viewer, view="ranked"))

    await api.give_feedback(viewer, first, "hide")

    async def is_last() -> bool:
        return (await walked(api, viewer))[-1] == first

    await until(is_last, "the hidden post comes last")
    assert (await api.walk_feed(viewer, 20)).post_ids == posts


async def test_each_place_is_explained(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    [viewer], [favourite, *_], _ = await audience(mesh, api, stored)
    await api.favour(viewer, favourite)
    own = int((await api.create_post(viewer, "Mine"))["id"])

    reasons = {
        int(item["id"]): item["why"] for page in await pages(api, viewer, explain="true") for item in page["items"]
    }

    ranked = list(reasons.values())[:CANDIDATES]
    assert [reason["place"] for reason in ranked] == list(range(CANDIDATES))
    assert sorted(reason["scoredPlace"] for reason in ranked) == list(range(CANDIDATES))
    for reason in ranked:
        assert {prediction["signal"] for prediction in reason["predictions"]} == {
            "like", "reply", "repost", "dwell", "negative",
        }  # fmt: skip
        assert all(0 <= prediction["probability"] <= 1 for prediction in reason["predictions"])
        assert 1 <= len(reason["factors"]) <= 5
    assert reasons[own]["source"] == "own"
    assert {reason["source"] for reason in ranked} <= {"pushed", "pulled", "own"}


async def test_the_chosen_view_is_shown_where_a_read_does_not_say(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    [viewer], _, _ = await audience(mesh, api, stored, authors=3, each_posts=4)
    assert (await api.feed(viewer))["view"] == "latest"

    await api.choose_view(viewer, "ranked")

    page = await api.feed(viewer, limit="5")
    assert page["view"] == "ranked"
    assert (await api.feed(viewer, cursor=page["nextCursor"]))["view"] == "ranked"
    assert (await api.feed(viewer, view="latest"))["view"] == "latest"


async def test_an_author_unfollowed_in_the_midst_of_a_walk_is_gone_from_the_next_page_on(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    [viewer], [unfollowed, muted, *_], posts = await audience(mesh, api, stored)
    first = await api.feed(viewer, view="ranked", limit="10")

    await api.unfollow(viewer, unfollowed)
    await api.mute(viewer, muted)

    rest: list[dict[str, Any]] = []
    cursor = first.get("nextCursor")
    while cursor is not None:
        page = await api.feed(viewer, view="ranked", limit="10", cursor=cursor)
        rest += page["items"]
        cursor = page.get("nextCursor")
    assert not {int(item["authorId"]) for item in rest} & {unfollowed, muted}
    assert len(rest) == len({item["id"] for item in rest})
    shown = set(ids(first)) | {int(item["id"]) for item in rest}
    assert len([post for post in posts if post not in shown]) <= 20


async def test_an_order_that_is_gone_begins_anew_and_says_so(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    [viewer], _, posts = await audience(mesh, api, stored, each_posts=5)
    first = await api.feed(viewer, view="ranked", limit="10")

    await stored.flush()

    again = await api.feed(viewer, view="ranked", limit="10", cursor=first["nextCursor"])
    assert again["notice"] == "orderExpired"
    assert again["view"] == "ranked"
    assert len(again["items"]) == 10
    assert sorted(await walked(api, viewer), reverse=True) == posts


async def test_without_redis_the_feed_is_latest_and_says_so(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
    [viewer], _, posts = await audience(mesh, api, stored, authors=3, each_posts=5)
    try:
        await asyncio.to_thread(mesh.kill, "redis")
        first = await api.feed(viewer, view="ranked", limit="10")
        assert (first["view"], first["notice"]) == ("latest", "rankingUnavailable")
        assert ids(first) == posts[:10]
        rest = await api.feed(viewer, view="ranked", limit="10", cursor=first["nextCursor"])
        assert ids(rest) == posts[10:]
    finally:
        await asyncio.to_thread(mesh.restart, "redis")
    await settled(mesh)


class Churn:
    """Authors who post and delete, again and again, while others read."""

    def __init__(self, api: FeedApi, authors: Sequence[int], dice: random.Random) -> None:
        self._api = api
        self._authors = authors
        self._dice = dice
        self._alive: list[tuple[int, int]] = []

    async def go_on(self, stop: asyncio.Event) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            author = self._dice.choice(self._authors)
            self._alive.append((author, int((await self._api.create_post(author, f"Passing {number}"))["id"])))
            if len(self._alive) > 20:
                await self._api.delete_post(*self._alive.pop(self._dice.randrange(len(self._alive))))
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "walks", [100, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])], ids=["some", "many"]
)
async def test_walks_neither_repeat_nor_skip_while_posts_come_and_go_whichever_replica_answers(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, tmp_path: Path, walks: int
) -> None:
    """What stood when a walk began, and was not deleted, is in it exactly once; nothing else twice."""
    dice = random.Random(walks)
    readers, writers, lasting = await audience(mesh, api, stored, viewers=10, each_posts=15)
    stop = asyncio.Event()
    lengths: list[int] = []

    async def walk_on(several: FeedApi, viewer: int) -> None:
        while len(lengths) < walks:
            lengths.append(0)
            place, limit = len(lengths) - 1, dice.randint(8, 20)
            read = await pages(several, viewer, limit)
            lengths[place] = len(read)
            shown = [post for page in read for post in ids(page)]
            assert {page["notice"] for page in read} == {None}
            assert len(shown) == len(set(shown)), f"repeated: {sorted({p for p in shown if shown.count(p) > 1})}"
            assert set(lasting) <= set(shown), f"skipped: {sorted(set(lasting) - set(shown))}"
            assert all(len(page["items"]) <= limit for page in read)

    async with several_timelines(mesh, tmp_path, 2) as several, asyncio.TaskGroup() as tasks:
        tasks.create_task(Churn(api, writers, dice).go_on(stop))
        try:
            async with asyncio.TaskGroup() as reading:
                for reader in readers:
                    reading.create_task(walk_on(several, reader))
        finally:
            stop.set()
    assert sum(lengths) / len(lengths) > 5
