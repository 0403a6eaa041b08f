"""What becomes of somebody whose account is suspended, restored or deleted by an operator: on the very next read."""

from typing import Any

import httpx
import operators
import pytest
from devmesh.mesh import Mesh

pytestmark = pytest.mark.integration


def acting(user_id: str) -> dict[str, str]:
    return {"X-User-Id": user_id}


async def read(client: httpx.AsyncClient, path: str, viewer_id: str) -> tuple[int, Any]:
    """Status and JSON, without what differs from answer to answer."""
    answer = await client.get(path, headers=acting(viewer_id))
    return answer.status_code, {**answer.json(), "traceId": ""}


async def refusal(client: httpx.AsyncClient, method: str, path: str, user_id: str, body: Any = None) -> tuple[int, str]:
    answer = await client.request(method, path, json=body, headers=acting(user_id))
    return answer.status_code, answer.json()["reason"]


@pytest.fixture
async def post_id(client: httpx.AsyncClient, ada: str, bob: str) -> str:
    """A post of Ada's, whom Bob follows."""
    await client.put(f"/api/following/{ada}", headers=acting(bob))
    answer = await client.post("/api/posts", json={"content": "hi"}, headers=acting(ada))
    return answer.json()["id"]


async def test_what_the_suspended_wrote_is_not_shown_and_shown_again_when_they_are_restored(
    client: httpx.AsyncClient, ada: str, bob: str, post_id: str, mesh: Mesh
) -> None:
    paths = [f"/api/posts/{post_id}", f"/api/posts?ids={post_id}", f"/api/users/{ada}/posts"]
    before = {(path, viewer): await read(client, path, viewer) for path in paths for viewer in (ada, bob)}
    await operators.suspend(mesh, int(ada))
    for viewer in (ada, bob):
        assert (await read(client, paths[0], viewer))[1]["reason"] == "POST_NOT_FOUND"
        assert await read(client, paths[1], viewer) == (200, {"items": [], "traceId": ""})
        assert await read(client, paths[2], viewer) == (200, {"items": [], "traceId": ""})
    assert (await read(client, f"/api/users/{ada}", bob))[1]["suspended"] is True
    await operators.restore(mesh, int(ada))
    assert {asked: await read(client, *asked) for asked in before} == before
    assert (await read(client, f"/api/users/{ada}", bob))[1]["suspended"] is False


async def test_the_suspended_neither_post_nor_edit_nor_follow_but_may_leave(
    client: httpx.AsyncClient, ada: str, bob: str, post_id: str, mesh: Mesh
) -> None:
    await operators.suspend(mesh, int(ada))
    suspended = (403, "ACCOUNT_SUSPENDED")
    assert await refusal(client, "POST", "/api/posts", ada, {"content": "hi"}) == suspended
    assert await refusal(client, "PATCH", f"/api/posts/{post_id}", ada, {"content": "ho"}) == suspended
    assert await refusal(client, "PUT", f"/api/following/{bob}", ada) == suspended
    for method, path in (
        ("DELETE", f"/api/following/{bob}"),
        ("PUT", f"/api/blocks/{bob}"),
        ("PUT", f"/api/mutes/{bob}"),
        ("DELETE", f"/api/posts/{post_id}"),
    ):
        assert (await client.request(method, path, headers=acting(ada))).status_code == 204
    assert (await read(client, "/api/feed", ada))[0] == 200


async def test_the_suspended_neither_like_nor_repost_nor_reply_but_may_take_back(
    client: httpx.AsyncClient, ada: str, bob: str, post_id: str, mesh: Mesh
) -> None:
    like, repost = f"/api/posts/{post_id}/like", f"/api/posts/{post_id}/repost"
    await operators.suspend(mesh, int(bob))
    suspended = (403, "ACCOUNT_SUSPENDED")
    assert await refusal(client, "PUT", like, bob) == suspended
    assert await refusal(client, "PUT", repost, bob) == suspended
    assert await refusal(client, "POST", "/api/posts", bob, {"content": "hm", "replyTo": post_id}) == suspended
    for path in (like, repost):
        answer = await client.delete(path, headers=acting(bob))
        assert (answer.status_code, answer.json()) == (200, {"counts": {"likes": 0, "reposts": 0, "replies": 0}})


async def test_nobody_begins_to_follow_the_suspended(client: httpx.AsyncClient, ada: str, bob: str, mesh: Mesh) -> None:
    await operators.suspend(mesh, int(ada))
    assert await refusal(client, "PUT", f"/api/following/{ada}", bob) == (409, "USER_SUSPENDED")


async def test_the_deleted_are_not_found_nor_is_what_they_wrote(
    client: httpx.AsyncClient, ada: str, bob: str, post_id: str, mesh: Mesh
) -> None:
    for path in (f"/api/posts/{post_id}", f"/api/users/{ada}", f"/api/users/{ada}/posts"):
        assert (await read(client, path, bob))[0] == 200
    await operators.delete(mesh, int(ada))
    assert (await read(client, f"/api/posts/{post_id}", bob))[1]["reason"] == "POST_NOT_FOUND"
    assert (await read(client, f"/api/posts?ids={post_id}", bob))[1]["items"] == []
    for path in (f"/api/users/{ada}", f"/api/users/{ada}/posts", f"/api/users/{ada}/followers"):
        assert (await read(client, path, bob))[1]["reason"] == "USER_NOT_FOUND"
    for method, path, body in (
        ("POST", "/api/posts", {"content": "hi"}),
        ("PATCH", f"/api/posts/{post_id}", {"content": "ho"}),
        ("PUT", f"/api/following/{bob}", None),
        ("GET", "/api/feed", None),
        ("GET", "/api/blocks", None),
        ("GET", "/api/mutes", None),
        ("GET", "/api/favourites", None),
        ("GET", "/api/feed/view", None),
        ("PUT", "/api/feed/view", {"view": "ranked"}),
    ):
        assert await refusal(client, method, path, ada, body) == (401, "UNAUTHENTICATED")
    for what in ("following", "blocks", "mutes", "favourites"):
        assert await refusal(client, "PUT", f"/api/{what}/{ada}", bob) == (404, "USER_NOT_FOUND")
