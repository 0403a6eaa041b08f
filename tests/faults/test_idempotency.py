"""A create that is tried again makes one post: whoever answers, whatever is cut off, whoever dies."""

import asyncio
import uuid
from collections import Counter
from pathlib import Path

import asyncpg
import httpx
import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from links import link_to
from replicas import started
from settling import settled
from slow_writers import slow_writers
from stored_keys import StoredKeys
from timelines import users, warmed

pytestmark = pytest.mark.integration


async def create(api: FeedApi, author: int, key: str, content: str = "Hello") -> httpx.Response:
    """One create, and whatever comes of it."""
    headers = {"Idempotency-Key": key}
    return await api.call("POST", "/api/posts", viewer=author, json={"content": content}, headers=headers)


async def created(api: FeedApi, author: int, key: str) -> int:
    """The post of a create that is tried again while the first is under way."""
    while (response := await create(api, author, key)).status_code == 409:
        assert response.json()["reason"] == "IDEMPOTENCY_KEY_IN_FLIGHT", response.text
    assert response.status_code == 201, response.text
    return int(response.json()["id"])


async def posts_of(mesh: Mesh, author: int) -> list[int]:
    """What there is of an author, in the truth, newest first."""
    connection = await asyncpg.connect(mesh.addresses.postgres["post"])
    try:
        rows = await connection.fetch("SELECT id FROM posts WHERE author_id = $1 ORDER BY id DESC", author)
        return [row["id"] for row in rows]
    finally:
        await connection.close()


async def author_and_follower(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> tuple[int, int]:
    """An author, and a follower whose timeline stands."""
    author, follower = await users(api, "Somebody", 2)
    await api.follow(follower, author)
    await warmed(mesh, api, stored, [follower])
    return author, follower


async def test_hand_11_a_key_makes_one_post_though_it_is_sent_ten_times_at_once_to_two_processes(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, tmp_path: Path
) -> None:
    author, follower = await author_and_follower(mesh, api, stored)
    [other] = await users(api, "Other", 1)
    key = str(uuid.uuid4())
    async with slow_writers(mesh, tmp_path, 2) as there:
        there.database.seconds = lambda: 0.08
        await there.database.cut()  # so that all connections are slow
        ids = set(await asyncio.gather(*(created(there.api, author, key) for _ in range(10))))
        assert len(ids) == 1
        assert {await created(there.api, author, key)} == ids
        refused = await create(there.api, author, key, "Something else")
        assert (refused.status_code, refused.json()["reason"]) == (422, "IDEMPOTENCY_KEY_REUSED")
        of_other = await created(there.api, other, key)
    assert of_other not in ids
    assert await posts_of(mesh, other) == [of_other]
    assert await posts_of(mesh, author) == [*ids]
    await settled(mesh)
    assert (await api.walk_feed(follower, 20)).post_ids == [*ids]


async def test_hand_11_whoever_was_cut_off_gets_the_post_that_was_made(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    author, follower = await author_and_follower(mesh, api, stored)
    async with link_to(mesh.addresses.gateway) as link, FeedApi(f"http://{link.address}") as through:
        for number in range(5):
            key = str(uuid.uuid4())
            link.loses_answers = True
            with pytest.raises(httpx.TransportError):
                await create(through, author, key)
            [newest, *earlier] = await posts_of(mesh, author)
            assert len(earlier) == number
            link.loses_answers = False
            assert await created(through, author, key) == newest
    written = await posts_of(mesh, author)
    assert len(written) == 5
    await settled(mesh)
    assert (await api.walk_feed(follower, 20)).post_ids == written


async def test_hand_11_processes_and_connections_that_die_while_they_create_lose_and_double_nothing(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, tmp_path: Path
) -> None:
    author, follower = await author_and_follower(mesh, api, stored)
    acknowledged: list[int] = []
    async with slow_writers(mesh, tmp_path, 2) as there:
        there.database.seconds = lambda: 0.05
        await there.database.cut()

        async def write() -> None:
            for _ in range(5):
                key = str(uuid.uuid4())
                first, again = await asyncio.gather(*(created(there.api, author, key) for _ in range(2)))
                assert first == again
                acknowledged.append(first)

        async def destroy() -> None:
            for dying in there.posts:
                await asyncio.sleep(0.3)
                await there.database.cut()
                await dying.kill()
                await started(dying)

        await asyncio.gather(destroy(), *(write() for _ in range(4)))
    assert Counter(await posts_of(mesh, author)) == Counter(acknowledged)
    await settled(mesh)
    assert (await api.walk_feed(follower, 20)).post_ids == sorted(acknowledged, reverse=True)
