"""What people do with posts, and the feed that is ranked by it, through the real services."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from .test_api import NOBODY, acting, create_post, edit, get

pytestmark = pytest.mark.integration

NewUser = Callable[[str], Awaitable[str]]


async def counts(client: httpx.AsyncClient, method: str, path: str, actor_id: str) -> Any:
    """What an engagement is answered with."""
    answer = await client.request(method, path, headers=acting(actor_id))
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"counts"}
    return answer.json()["counts"]


def of(likes: int = 0, reposts: int = 0, replies: int = 0) -> dict[str, int]:
    return {"likes": likes, "reposts": reposts, "replies": replies}


async def until_counted(client: httpx.AsyncClient, post_id: str, expected: dict[str, int]) -> None:
    """Look until a post shows counts: they follow within seconds."""
    told: Any = None
    for _ in range(300):
        told = (await get(client, f"/api/posts/{post_id}"))["counts"]
        if told == expected:
            return
        await asyncio.sleep(0.05)
    assert told == expected


async def test_likes_and_reposts_are_answered_with_the_counts_and_may_be_repeated(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    post_id = await create_post(client, ada)
    like, repost = f"/api/posts/{post_id}/like", f"/api/posts/{post_id}/repost"
    for _ in range(2):
        assert await counts(client, "PUT", like, bob) == of(likes=1)
    assert await counts(client, "PUT", like, ada) == of(likes=2)
    assert await counts(client, "PUT", repost, bob) == of(likes=2, reposts=1)
    for _ in range(2):
        assert await counts(client, "DELETE", like, bob) == of(likes=1, reposts=1)
    assert await counts(client, "DELETE", repost, ada) == of(likes=1, reposts=1)
    assert (await edit(client, post_id, ada, content="other"))["counts"] == of(likes=1, reposts=1)


async def test_counts_show_wherever_the_post_does(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    post_id = await create_post(client, ada)
    places: list[tuple[str, dict[str, str]]] = [
        (f"/api/users/{ada}/posts", {}),
        ("/api/posts", {"ids": post_id}),
        ("/api/feed", {"view": "latest"}),
        ("/api/feed", {"view": "ranked"}),
    ]
    for path, params in places:
        await get(client, path, ada, **params)  # as they are, so that they may be remembered
    await counts(client, "PUT", f"/api/posts/{post_id}/like", bob)
    await until_counted(client, post_id, of(likes=1))
    for path, params in places:
        (post,) = (await get(client, path, ada, **params))["items"]
        assert post["counts"] == of(likes=1), (path, params)


async def test_a_reply_says_to_what_and_counts_until_it_is_deleted(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    post_id = await create_post(client, ada)
    answer = await client.post("/api/posts", json={"content": "indeed", "replyTo": post_id}, headers=acting(bob))
    reply = answer.json()
    assert (answer.status_code, reply["replyTo"], reply["counts"]) == (201, post_id, of())
    assert await get(client, f"/api/posts/{reply['id']}") == reply
    await until_counted(client, post_id, of(replies=1))
    await client.delete(f"/api/posts/{reply['id']}", headers=acting(bob))
    await until_counted(client, post_id, of())


async def test_a_reply_to_what_is_not_there_is_refused(client: httpx.AsyncClient, ada: str) -> None:
    answer = await client.post("/api/posts", json={"content": "what?", "replyTo": NOBODY}, headers=acting(ada))
    assert (answer.status_code, answer.json()["reason"]) == (404, "POST_NOT_FOUND")
    assert [error["field"] for error in answer.json()["errors"]] == ["replyTo"]


async def test_whoever_is_blocked_finds_no_post_to_like_or_to_reply_to(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    post_id = await create_post(client, ada)
    await client.put(f"/api/blocks/{bob}", headers=acting(ada))
    liked = await client.put(f"/api/posts/{post_id}/like", headers=acting(bob))
    replied = await client.post("/api/posts", json={"content": "hm", "replyTo": post_id}, headers=acting(bob))
    assert [(answer.status_code, answer.json()["reason"]) for answer in (liked, replied)] == [
        (404, "POST_NOT_FOUND")
    ] * 2


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/api/posts/{post}/like", None),
        ("DELETE", "/api/posts/{post}/repost", None),
        ("POST", "/api/posts/{post}/feedback", {"kind": "hide"}),
        (
            "POST",
            "/api/feed/impressions",
            {"impressions": [{"postId": "1", "position": 0, "dwellMs": 0, "view": "latest"}]},
        ),
        ("GET", "/api/favourites", None),
        ("PUT", "/api/favourites/{ada}", None),
        ("GET", "/api/feed/view", None),
        ("PUT", "/api/feed/view", {"view": "ranked"}),
        ("GET", "/api/feed?view=ranked", None),
    ],
)
async def test_an_identity_that_names_nobody_is_refused(
    *, client: httpx.AsyncClient, ada: str, method: str, path: str, body: Any
) -> None:
    path = path.format(post=await create_post(client, ada), ada=ada)
    answer = await client.request(method, path, json=body, headers=acting(NOBODY))
    assert (answer.status_code, answer.json()["reason"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("kind", ["hide", "less_like_this"])
async def test_feedback_may_be_repeated_and_leaves_the_latest_feed_as_it_is(
    client: httpx.AsyncClient, ada: str, kind: str
) -> None:
    post_id = await create_post(client, ada)
    for _ in range(2):
        answer = await client.post(f"/api/posts/{post_id}/feedback", json={"kind": kind}, headers=acting(ada))
        assert (answer.status_code, answer.content) == (204, b"")
    assert [post["id"] for post in (await get(client, "/api/feed", ada, view="latest"))["items"]] == [post_id]
    missing = await client.post(f"/api/posts/{NOBODY}/feedback", json={"kind": kind}, headers=acting(ada))
    assert (missing.status_code, missing.json()["reason"]) == (404, "POST_NOT_FOUND")


async def test_impressions_are_recorded_once_and_those_of_nothing_passed_over(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    seen = [
        {"postId": post_id, "position": place, "dwellMs": 100, "view": "latest"}
        for place, post_id in enumerate([await create_post(client, bob), await create_post(client, bob), NOBODY])
    ]
    for recorded in (2, 0):
        answer = await client.post("/api/feed/impressions", json={"impressions": seen}, headers=acting(ada))
        assert (answer.status_code, answer.json()) == (202, {"recorded": recorded})


async def test_favourites_are_among_those_one_follows_and_end_with_the_follow(
    client: httpx.AsyncClient, ada: str, new_user: NewUser
) -> None:
    others = [await new_user(name) for name in ("one", "two", "three")]
    refused = await client.put(f"/api/favourites/{others[0]}", headers=acting(ada))
    assert (refused.status_code, refused.json()["reason"]) == (409, "NOT_FOLLOWING")
    for user_id in [*others, others[0]]:
        await client.put(f"/api/following/{user_id}", headers=acting(ada))
        answer = await client.put(f"/api/favourites/{user_id}", headers=acting(ada))
        assert (answer.status_code, answer.content) == (204, b"")
    first = await get(client, "/api/favourites", ada, limit="2")
    last = await get(client, "/api/favourites", ada, limit="2", cursor=first["nextCursor"])
    assert [user["id"] for user in first["items"] + last["items"]] == others[::-1]
    assert "nextCursor" not in last
    told = await get(client, "/api/relationships", ada, ids=",".join(others))
    assert [each["favourite"] for each in told["items"]] == [True] * 3
    for _ in range(2):
        answer = await client.delete(f"/api/favourites/{others[1]}", headers=acting(ada))
        assert (answer.status_code, answer.content) == (204, b"")
    await client.delete(f"/api/following/{others[2]}", headers=acting(ada))
    assert [user["id"] for user in (await get(client, "/api/favourites", ada))["items"]] == [others[0]]


# --- the ranked feed ---------------------------------------------------------------------------------------------------


async def test_a_view_is_chosen_and_can_be_asked_for_all_the_same(client: httpx.AsyncClient, ada: str) -> None:
    await create_post(client, ada)
    assert await get(client, "/api/feed/view", ada) == {"view": "latest"}
    for view, other in (("ranked", "latest"), ("latest", "ranked")):
        for _ in range(2):
            answer = await client.put("/api/feed/view", json={"view": view}, headers=acting(ada))
            assert (answer.status_code, answer.json()) == (200, {"view": view})
        assert await get(client, "/api/feed/view", ada) == {"view": view}
        assert (await get(client, "/api/feed", ada))["view"] == view
        assert (await get(client, "/api/feed", ada, view=other))["view"] == other


async def test_a_ranked_feed_is_walked_to_its_end_by_cursors_that_need_no_view(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    await client.put(f"/api/following/{bob}", headers=acting(ada))
    created = [await create_post(client, author_id) for author_id in (ada, bob) * 4]
    page = await get(client, "/api/feed", ada, limit="3", view="ranked")
    walked: list[str] = []
    for _ in range(10):
        assert page["notice"] is None
        walked += [post["id"] for post in page["items"]]
        if "nextCursor" not in page:
            break
        page = await get(client, "/api/feed", ada, limit="3", cursor=page["nextCursor"])
    assert sorted(walked) == sorted(created)
    assert "nextCursor" not in page


@pytest.mark.parametrize("view", ["latest", "ranked"])
async def test_each_post_says_why_it_is_there_where_that_is_asked_for(
    client: httpx.AsyncClient, ada: str, view: str
) -> None:
    created = [await create_post(client, ada) for _ in range(3)]
    plain = await get(client, "/api/feed", ada, view=view, explain="false")
    assert not any("why" in post for post in plain["items"])
    explained = await get(client, "/api/feed", ada, view=view, explain="true")
    whys = [post["why"] for post in explained["items"]]
    assert [why["source"] for why in whys] == ["own"] * len(created)
    assert [why["place"] for why in whys] == [0, 1, 2]
    assert {prediction["signal"] for prediction in whys[0]["predictions"]} == (
        {"like", "reply", "repost", "dwell", "negative"} if view == "ranked" else set()
    )
