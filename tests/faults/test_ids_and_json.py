"""What ids and JSON of others were reported to have lost, and must not here."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg
import grpc
import grpc.aio
import httpx
import pytest
from devmesh.mesh import Mesh
from feed.post.v1 import post_pb2, post_pb2_grpc
from feed_api import FeedApi
from feedkit import status
from feedkit.cursor import created_at_ms
from feedkit.errors import FeedError, Unavailable
from operators import suspend
from polling import until
from replicas import Replica, replicas, started
from settling import settled
from stepped_clock import SteppedClock
from timelines import users
from walks import each

pytestmark = pytest.mark.integration

# --- HAND-17 -----------------------------------------------------------------------------------------------------------

POSTS = 3_000
SECONDS = 10.0
"""No longer than this, where that many are not written by then."""
WRITERS_EACH = 8


class Writer:
    """Writes through one process of the service `post`, past the gateway, and notes what was acknowledged."""

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address = address
        self._posts = post_pb2_grpc.PostServiceStub(channel)
        self.acknowledged: dict[int, str] = {}
        """Post id to text. An id that comes twice is noticed at once."""

    async def write(self, author: int, content: str) -> int:
        """A new post's id. Raises what the process refuses with."""
        request = post_pb2.CreatePostRequest(author_id=author, content=content)
        try:
            created = (await self._posts.CreatePost(request, timeout=5)).post
        except grpc.aio.AioRpcError as error:
            raise status.from_rpc_error(error, "post") from None
        assert created.id not in self.acknowledged
        self.acknowledged[created.id] = content
        return created.id

    async def refusal(self, author: int) -> FeedError:
        """What the process refuses to write with."""
        with pytest.raises(FeedError) as refused:
            await self.write(author, "Refused")
        return refused.value


@asynccontextmanager
async def writers(*addresses: str) -> AsyncGenerator[list[Writer]]:
    """A writer for each of these processes."""
    # A process that was killed is found again soon.
    options = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.use_local_subchannel_pool", 1)]
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(address, options=options))
            for address in addresses
        ]
        yield [Writer(address, channel) for address, channel in zip(addresses, channels, strict=True)]


async def assert_all_there(api: FeedApi, acknowledged: Mapping[int, str]) -> None:
    """Every post that was acknowledged is there with its text: no other has taken its place."""
    wanted = sorted(acknowledged)

    async def check(start: int) -> None:
        some = wanted[start : start + 100]
        found = (await api.get("/api/posts", ids=",".join(map(str, some))))["items"]
        assert {int(item["id"]): item["content"] for item in found} == {post: acknowledged[post] for post in some}

    await each(range(0, len(wanted), 100), check)


@pytest.mark.timeout(600)
async def test_hand_17_five_processes_that_come_and_go_make_no_id_twice(
    mesh: Mesh, api: FeedApi, tmp_path: Path
) -> None:
    """Two processes made equal ids, and one post took the place of another. 3,000 posts at most instead of 200,000, as
    fast as five processes write, of which two are ended and started again all the time.

    `services/post/tests/integration/test_worker_store.py` has 80,000 ids from processes that pass few numbers on.
    """
    authors = await users(api, "Author", 5)
    async with replicas(mesh, "post", 4, tmp_path) as others:
        await started(*others)
        addresses = [mesh.addresses.grpc["post"], *(replica.address for replica in others)]
        async with writers(*addresses) as all_writers:
            until_then = time.monotonic() + SECONDS

            def enough() -> bool:
                written = sum(len(writer.acknowledged) for writer in all_writers)
                return written >= POSTS or (time.monotonic() > until_then and all(w.acknowledged for w in all_writers))

            async def write(writer: Writer, author: int, hand: int) -> None:
                for number in itertools.count():
                    if enough():
                        return
                    try:
                        await writer.write(author, f"Post {number} by hand {hand} at {writer.address}")
                    except Unavailable as error:
                        # Its process is down at the moment, or begins; no id is made twice and found out by the database.
                        assert "exists already" not in error.message
                        await asyncio.sleep(0.02)

            async def come_and_go(killed: Replica, ended: Replica) -> None:
                while not enough():
                    await killed.kill()
                    assert await ended.terminate() == 0
                    await started(killed, ended)

            async with asyncio.TaskGroup() as tasks:
                for (writer, author), hand in itertools.product(
                    zip(all_writers, authors, strict=True), range(WRITERS_EACH)
                ):
                    tasks.create_task(write(writer, author, hand))
                tasks.create_task(come_and_go(*others[:2]))
            acknowledged = {post: text for writer in all_writers for post, text in writer.acknowledged.items()}
            assert len(acknowledged) == sum(len(writer.acknowledged) for writer in all_writers) > POSTS / 10
            await assert_all_there(api, acknowledged)
    await settled(mesh)


SMALL_STEP_MS = 50
LARGE_STEPS_MS = (-5_000, -3_600_000, 3_600_000)


async def test_hand_17_a_clock_that_steps_makes_no_id_twice_and_no_outage(
    mesh: Mesh, api: FeedApi, tmp_path: Path
) -> None:
    """A step back made equal ids, and the guard against it ended the process. A small step has to be waited out; after a
    larger one this process alone refuses, in a way that may be tried again, until its clock is right.
    """
    [author] = await users(api, "Author", 1)
    clock = SteppedClock(tmp_path / "clock")
    async with replicas(mesh, "post", 1, tmp_path, launcher=clock.launcher) as [stepping]:
        await started(stepping)
        async with writers(stepping.address, mesh.addresses.grpc["post"]) as [writer, other]:

            async def write() -> int:
                return await writer.write(author, f"Post {len(writer.acknowledged)}")

            async def not_ready() -> bool:
                return not await stepping.is_ready()

            before = await write()
            for offset_ms in (-SMALL_STEP_MS, 0):
                clock.step_to(offset_ms)
                after = await write()
                assert after > before
                before = after
            for offset_ms in LARGE_STEPS_MS:
                clock.step_to(offset_ms)
                refused = await writer.refusal(author)
                assert (refused.code.name, refused.reason) == ("UNAVAILABLE", "IDS_UNAVAILABLE")
                await until(not_ready, "not ready any more")
                assert stepping.runs
                await other.write(author, "The others go on")
                clock.step_to(0)
                await stepping.until_ready()
                after = await write()
                assert after > before
                before = after
            assert not writer.acknowledged.keys() & other.acknowledged.keys()
            assert [*writer.acknowledged] == sorted(writer.acknowledged)
            assert created_at_ms(before) - created_at_ms(min(writer.acknowledged)) < 60_000
            await assert_all_there(api, {**writer.acknowledged, **other.acknowledged})


@asynccontextmanager
async def no_worker_number_free(mesh: Mesh) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Within the block every worker number is held by somebody, until one is released by what this gives."""
    table = await asyncpg.connect(mesh.addresses.postgres["post"])
    # Those of processes that were killed lately would run out soon; who lives keeps prolonging their own.
    await table.execute("UPDATE id_workers SET expires_at = now() + interval '1 hour' WHERE expires_at > now()")
    taken = await table.fetch(
        "UPDATE id_workers SET holder = gen_random_uuid(), expires_at = now() + interval '1 hour' "
        "WHERE holder IS NULL OR expires_at <= now() RETURNING holder"
    )
    release = "UPDATE id_workers SET holder = NULL WHERE holder = ANY($1::uuid[])"
    holders = [row["holder"] for row in taken]

    async def release_one() -> None:
        await table.execute(release, holders[:1])

    try:
        yield release_one
    finally:
        await table.execute(release, holders)
        await table.execute("UPDATE id_workers SET expires_at = now() + interval '15 s' WHERE expires_at > now()")
        await table.close()


async def test_hand_17_a_process_without_a_worker_number_writes_nothing_until_it_has_one(
    mesh: Mesh, api: FeedApi, tmp_path: Path
) -> None:
    """More processes than there are numbers: those that came last made equal ids. One without a number has to refuse to
    write, to live on, and to begin once a number is free. Every number but that of the mesh's own process is taken.
    """
    [author] = await users(api, "Author", 1)
    async with no_worker_number_free(mesh) as release_one, replicas(mesh, "post", 1, tmp_path) as [surplus]:
        surplus.start()
        async with writers(surplus.address, mesh.addresses.grpc["post"]) as [writer, other]:

            async def refuses() -> bool:
                return (await writer.refusal(author)).reason == "IDS_UNAVAILABLE"

            await until(refuses, "a refusal for want of a worker number")
            assert not await surplus.is_ready()
            await other.write(author, "The others go on")
            await asyncio.sleep(1.5)  # longer than it waits before it asks again
            assert await refuses()
            assert surplus.runs
            await release_one()
            await surplus.until_ready()
            assert await writer.write(author, "At last") not in other.acknowledged


# --- HAND-18 -----------------------------------------------------------------------------------------------------------


class DoubleOnlyApi:
    """The public API to a reader whose only numbers are doubles, as JavaScript's are."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def __call__(
        self, method: str, path: str, viewer: str | None = None, expected: int = 200, **request: Any
    ) -> Any:
        """The document of an answer, which has to have this status."""
        headers = {} if viewer is None else {"X-User-Id": viewer}
        answer = await self._http.request(method, path, headers=headers, **request)
        assert answer.status_code == expected, answer.text
        document = json.loads(answer.text, parse_int=float) if answer.content else None
        assert_no_number_is_an_id(document)
        return document


def assert_no_number_is_an_id(value: Any, name: str = "") -> None:
    """Ids are strings, wherever they are, and numbers stay within what a double holds exactly."""
    if isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            assert_no_number_is_an_id(member, key)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            assert_no_number_is_an_id(member, name)
    elif name.lower().endswith(("id", "ids")):
        assert isinstance(value, str), f"{name}: {value!r}"
    else:
        assert not isinstance(value, float) or abs(value) < 2**53


@pytest.fixture
def double_only(api: FeedApi) -> DoubleOnlyApi:
    return DoubleOnlyApi(api.http)


POST = {"id", "authorId", "author", "content", "media", "createdAt", "editedAt", "replyTo", "counts"}
MEDIA = {"url", "type", "width", "height", "altText"}


def ids(page: dict[str, Any]) -> list[str]:
    """The ids of what is on a page, as they are spelled."""
    return [item["id"] for item in page["items"]]


async def people(double_only: DoubleOnlyApi, *names: str) -> list[str]:
    """New users' ids."""
    return [(await double_only("POST", "/api/users", expected=201, json={"name": name}))["id"] for name in names]


async def ids_that_doubles_round(double_only: DoubleOnlyApi, author: str) -> list[str]:
    """The ids of an author's posts, newest first, at least one of which would be another as a double."""
    created: list[str] = []
    while all(int(float(post)) == int(post) for post in created):
        # Only what is not the first of its millisecond is rounded at all.
        posts = [double_only("POST", "/api/posts", author, 201, json={"content": "A post"}) for _ in range(10)]
        created += [post["id"] for post in await asyncio.gather(*posts)]
        assert len(created) <= 50
    return sorted(created, key=int, reverse=True)


async def relationship(double_only: DoubleOnlyApi, viewer: str, user: str) -> dict[str, Any]:
    """How a viewer and a user stand to one another."""
    [answer] = (await double_only("GET", "/api/relationships", viewer, params={"ids": user}))["items"]
    return answer


async def test_hand_18_ids_keep_their_spelling_in_every_answer_and_lead_back(double_only: DoubleOnlyApi) -> None:
    """Ids came as numbers, which JavaScript rounded, so that items were one or could not be opened. Every id is a string,
    spelled the same everywhere, and works wherever an id or a cursor may stand.
    """
    reader, author = await people(double_only, "Reader", "Author")
    await double_only("PUT", f"/api/following/{author}", reader, 204)
    created = await ids_that_doubles_round(double_only, author)
    assert all(int(post) > 2**53 for post in created)

    for path, viewer in (("/api/feed", reader), (f"/api/users/{author}/posts", reader), ("/api/feed", author)):
        first = await double_only("GET", path, viewer, params={"limit": "5"})
        last = ids(first)[-1]
        # The cursor is the position of the last post, and its id is spelled as everywhere.
        by_hand = f"{created_at_ms(int(last))}:{last}"
        assert first["nextCursor"] == by_hand
        rest = await double_only("GET", path, viewer, params={"limit": "50", "cursor": by_hand})
        assert [*ids(first), *ids(rest)] == created
        for item in (*first["items"], *rest["items"]):
            assert item["authorId"] == item["author"]["id"] == author

    for post in created:
        assert (await double_only("GET", f"/api/posts/{post}"))["id"] == post
    assert ids(await double_only("GET", "/api/posts", params={"ids": ",".join(created)})) == created
    newest = f"/api/posts/{created[0]}"
    assert (await double_only("PATCH", newest, author, json={"content": "Edited"}))["id"] == created[0]
    await double_only("DELETE", newest, author, 204)
    await double_only("GET", newest, expected=404)
    assert ids(await double_only("GET", "/api/feed", reader, params={"limit": "50"})) == created[1:]

    for path, shown in ((f"/api/users/{author}/followers", reader), (f"/api/users/{reader}/following", author)):
        assert ids(await double_only("GET", path)) == [shown]
    assert (await double_only("GET", f"/api/users/{author}"))["id"] == author
    assert ids(await double_only("GET", "/api/users", params={"ids": f"{author},{reader}"})) == [author, reader]
    assert (await relationship(double_only, reader, author))["userId"] == author
    outcomes = await double_only("POST", "/api/following", reader, json={"userIds": [author, reader]})
    assert [result["userId"] for result in outcomes["results"]] == [author, reader]
    for kept in ("mutes", "blocks"):
        await double_only("PUT", f"/api/{kept}/{author}", reader, 204)
        assert ids(await double_only("GET", f"/api/{kept}", reader)) == [author]
        await double_only("DELETE", f"/api/{kept}/{author}", reader, 204)


async def test_hand_18_empty_lists_zeros_and_falsehoods_are_there(mesh: Mesh, double_only: DoubleOnlyApi) -> None:
    """What was empty, zero or false was left out on the way from protobuf to JSON. The members have to be the same whatever
    their values; a cursor, whose absence is the end, is the one exception.
    """
    reader, author = await people(double_only, "Reader", "Author")

    # Somebody who follows nobody, has no followers and has written nothing.
    assert await double_only("GET", "/api/feed", reader) == {
        "items": [],
        "view": "latest",
        "notice": None,
        "insertions": [],
    }
    for path in (f"/api/users/{reader}/{which}" for which in ("posts", "followers", "following")):
        assert await double_only("GET", path) == {"items": []}
    for path in ("/api/blocks", "/api/mutes"):
        assert await double_only("GET", path, reader) == {"items": []}
    assert await double_only("GET", f"/api/users/{reader}") == {
        "id": reader,
        "name": "Reader",
        "followerCount": 0,
        "followingCount": 0,
        "suspended": False,
    }
    nothing = dict.fromkeys(("following", "followedBy", "muting", "blocking", "favourite"), False)
    strangers: dict[str, Any] = {"userId": author, **nothing}
    assert await relationship(double_only, reader, author) == strangers

    # A post with nothing but text, and one with everything.
    plain = await double_only("POST", "/api/posts", author, 201, json={"content": "Plain"})
    assert (plain["media"], plain["editedAt"]) == ([], None)
    media = [
        {"url": "https://media.example/1", "type": "image"},
        {"url": "https://media.example/2", "type": "image", "width": 1, "height": 2, "altText": "Two"},
    ]
    full = await double_only("POST", "/api/posts", author, 201, json={"content": "Full", "media": media})
    assert full["media"][0] == {**media[0], "width": 0, "height": 0, "altText": ""}
    await double_only("PATCH", f"/api/posts/{full['id']}", author, json={"content": "Edited"})
    await double_only("PUT", f"/api/following/{author}", reader, 204)
    feed = await double_only("GET", "/api/feed", reader)
    assert ids(feed) == [full["id"], plain["id"]]
    for item in feed["items"]:
        assert item.keys() == POST
        assert item["author"].keys() == {"id", "name"}
        assert all(each_media.keys() == MEDIA for each_media in item["media"])
    assert [item["editedAt"] is None for item in feed["items"]] == [False, True]

    # Two who have everything to do with one another.
    await double_only("PUT", f"/api/following/{reader}", author, 204)
    await double_only("PUT", f"/api/mutes/{author}", reader, 204)
    relationships = [await relationship(double_only, reader, author)]
    await double_only("PUT", f"/api/blocks/{author}", reader, 204)
    relationships.append(await relationship(double_only, reader, author))
    assert relationships == [
        {**strangers, "following": True, "followedBy": True, "muting": True},
        {**strangers, "muting": True, "blocking": True},
    ]
    await suspend(mesh, int(author))
    suspended = await double_only("GET", f"/api/users/{author}")
    assert suspended == {"id": author, "name": "Author", "followerCount": 0, "followingCount": 0, "suspended": True}
