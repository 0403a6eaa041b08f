"""Every call of the public API, once and rightly, through the real services."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.integration

NewUser = Callable[[str], Awaitable[str]]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NOBODY = str(2**63 - 1)
NOTHING: dict[str, Any] = {"items": [], "view": "latest", "notice": None, "insertions": []}
"""A feed of nothing."""
STRANGERS = dict.fromkeys(("following", "followedBy", "muting", "blocking", "favourite"), False)


def acting(user_id: str, **headers: str) -> dict[str, str]:
    return {"X-User-Id": user_id, **headers}


async def create_post(client: httpx.AsyncClient, author_id: str, content: str = "hello") -> str:
    answer = await client.post("/api/posts", json={"content": content}, headers=acting(author_id))
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def get(client: httpx.AsyncClient, path: str, viewer_id: str = "", **params: str) -> Any:
    answer = await client.get(path, params=params, headers=acting(viewer_id) if viewer_id else {})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_user_is_created(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/users", json={"name": "Zoë 🙂"})
    user = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/users/{user['id']}"
    assert user == {"id": user["id"], "name": "Zoë 🙂", "followerCount": 0, "followingCount": 0, "suspended": False}


async def test_a_user_shows_counts(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    await client.put(f"/api/following/{bob}", headers=acting(ada))
    assert await get(client, f"/api/users/{bob}") == {
        "id": bob,
        "name": "Bob",
        "followerCount": 1,
        "followingCount": 0,
        "suspended": False,
    }


async def test_users_come_in_batches_without_the_unknown(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    batch = await get(client, "/api/users", ids=f"{bob},{NOBODY},{ada},{bob}")
    assert [user["name"] for user in batch["items"]] == ["Bob", "Ada"]
    assert "nextCursor" not in batch


async def test_a_post_is_created_with_media(client: httpx.AsyncClient, ada: str) -> None:
    full = {"url": "https://x.example/a.webp", "type": "image/webp", "width": 640, "height": 480, "altText": "a cat"}
    brief = {"url": "https://x.example/b.mp4", "type": "video"}
    answer = await client.post("/api/posts", json={"content": "hi", "media": [full, brief]}, headers=acting(ada))
    post = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/posts/{post['id']}"
    assert "idempotency-replayed" not in answer.headers
    assert TIME.fullmatch(post["createdAt"])
    assert post == {
        "id": post["id"],
        "authorId": ada,
        "author": {"id": ada, "name": "Ada"},
        "content": "hi",
        "media": [full, {**brief, "width": 0, "height": 0, "altText": ""}],
        "createdAt": post["createdAt"],
        "editedAt": None,
        "replyTo": None,
        "counts": {"likes": 0, "reposts": 0, "replies": 0},
    }


async def test_a_post_reads_as_it_was_created(client: httpx.AsyncClient, ada: str) -> None:
    created = (await client.post("/api/posts", json={"content": "hi 🙂"}, headers=acting(ada))).json()
    assert await get(client, f"/api/posts/{created['id']}") == created


async def test_posts_come_in_batches_without_the_unknown(client: httpx.AsyncClient, ada: str) -> None:
    first, second = await create_post(client, ada), await create_post(client, ada)
    batch = await get(client, "/api/posts", ids=f"{first},{NOBODY},{second}")
    assert [post["id"] for post in batch["items"]] == [first, second]


async def edit(client: httpx.AsyncClient, post_id: str, author_id: str, **changes: Any) -> Any:
    answer = await client.patch(f"/api/posts/{post_id}", json=changes, headers=acting(author_id))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_edit_is_answered_with_the_post_and_shows_on_the_very_next_read_everywhere(
    client: httpx.AsyncClient, ada: str
) -> None:
    post_id = await create_post(client, ada)
    paths = [f"/api/posts/{post_id}", f"/api/users/{ada}/posts", "/api/feed"]
    for content in ("other", "yet another"):
        for path in paths:
            await get(client, path, ada)  # as it was, so that it may be remembered
        edited = await edit(client, post_id, ada, content=content)
        assert (edited["content"], edited["author"], edited["media"]) == (content, {"id": ada, "name": "Ada"}, [])
        assert edited["createdAt"] <= edited["editedAt"]
        for path in paths:
            shown = await get(client, path, ada)
            assert shown.get("items", [shown]) == [edited]
        assert (await get(client, "/api/posts", ada, ids=post_id))["items"] == [edited]


async def test_an_edit_leaves_what_it_does_not_name(client: httpx.AsyncClient, ada: str) -> None:
    medium = {"url": "https://x.example/a.webp", "type": "image", "width": 1, "height": 2, "altText": "a cat"}
    answer = await client.post("/api/posts", json={"content": "hi", "media": [medium]}, headers=acting(ada))
    post_id = answer.json()["id"]
    assert (await edit(client, post_id, ada, content="ho"))["media"] == [medium]
    assert (await edit(client, post_id, ada, media=[]))["content"] == "ho"


async def test_what_changes_nothing_is_no_edit(client: httpx.AsyncClient, ada: str) -> None:
    post_id = await create_post(client, ada)
    assert (await edit(client, post_id, ada, content="hello"))["editedAt"] is None
    edited = await edit(client, post_id, ada, content="other")
    assert await edit(client, post_id, ada, content="other", media=[]) == edited


async def test_an_own_post_is_deleted_and_deleted_again(client: httpx.AsyncClient, ada: str) -> None:
    post_id = await create_post(client, ada)
    for _ in range(2):
        answer = await client.delete(f"/api/posts/{post_id}", headers=acting(ada))
        assert (answer.status_code, answer.content) == (204, b"")
    assert (await client.get(f"/api/posts/{post_id}")).status_code == 404


async def test_an_author_s_posts_are_paged_newest_first(client: httpx.AsyncClient, ada: str) -> None:
    created = [await create_post(client, ada, f"number {number}") for number in range(5)]
    seen: list[str] = []
    cursor = ""
    for _ in range(3):
        page = await get(client, f"/api/users/{ada}/posts", limit="2", cursor=cursor)
        seen += [post["id"] for post in page["items"]]
        cursor = page.get("nextCursor", "")
    assert seen == created[::-1]
    assert cursor == ""


async def test_somebody_who_wrote_nothing_has_an_empty_page(client: httpx.AsyncClient, ada: str) -> None:
    assert await get(client, f"/api/users/{ada}/posts") == {"items": []}


async def test_following_and_unfollowing_may_be_repeated(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    for method, expected in (("PUT", 1), ("DELETE", 0)):
        for _ in range(2):
            answer = await client.request(method, f"/api/following/{bob}", headers=acting(ada))
            assert (answer.status_code, answer.content) == (204, b"")
        assert (await get(client, f"/api/users/{ada}"))["followingCount"] == expected


async def test_many_are_followed_each_with_an_outcome(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    answer = await client.post("/api/following", json={"userIds": [bob, int(bob), ada, NOBODY]}, headers=acting(ada))
    assert answer.status_code == 200
    assert answer.json() == {
        "results": [
            {"userId": bob, "outcome": "followed"},
            {"userId": ada, "outcome": "refused", "reason": "CANNOT_FOLLOW_SELF"},
            {"userId": NOBODY, "outcome": "refused", "reason": "USER_NOT_FOUND"},
        ]
    }
    again = await client.post("/api/following", json={"userIds": [bob]}, headers=acting(ada))
    assert again.json() == {"results": [{"userId": bob, "outcome": "already"}]}


async def test_followers_and_following_are_paged(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    await client.put(f"/api/following/{bob}", headers=acting(ada))
    await client.put(f"/api/following/{ada}", headers=acting(bob))
    third = (await client.post("/api/users", json={"name": "Cyd"})).json()["id"]
    await client.put(f"/api/following/{bob}", headers=acting(third))

    first = await get(client, f"/api/users/{bob}/followers", limit="1")
    last = await get(client, f"/api/users/{bob}/followers", limit="1", cursor=first["nextCursor"])
    assert [user["id"] for page in (first, last) for user in page["items"]] == [third, ada]
    assert "nextCursor" not in last
    following = await get(client, f"/api/users/{ada}/following")
    assert following["items"] == [await get(client, f"/api/users/{bob}")]


@pytest.mark.parametrize(("path", "member"), [("/api/blocks", "blocking"), ("/api/mutes", "muting")])
async def test_blocking_and_muting_may_be_repeated_and_are_listed(
    client: httpx.AsyncClient, ada: str, new_user: NewUser, path: str, member: str
) -> None:
    others = [await new_user(name) for name in ("one", "two", "three")]
    for user_id in [*others, others[0]]:
        answer = await client.put(f"{path}/{user_id}", headers=acting(ada))
        assert (answer.status_code, answer.content) == (204, b"")
    first = await get(client, path, ada, limit="2")
    last = await get(client, path, ada, limit="2", cursor=first["nextCursor"])
    assert first["items"] + last["items"] == [await get(client, f"/api/users/{other}") for other in reversed(others)]
    assert "nextCursor" not in last
    told = await get(client, "/api/relationships", ada, ids=others[1])
    assert {name: value for name, value in told["items"][0].items() if value is True} == {member: True}
    for _ in range(2):
        answer = await client.delete(f"{path}/{others[1]}", headers=acting(ada))
        assert (answer.status_code, answer.content) == (204, b"")
    assert [user["id"] for user in (await get(client, path, ada))["items"]] == [others[2], others[0]]
    assert await get(client, path, others[0]) == {"items": []}


async def test_a_block_hides_each_from_the_other_and_does_not_say_so(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    written = {author_id: await create_post(client, author_id) for author_id in (ada, bob)}
    for viewer_id, author_id in ((ada, bob), (bob, ada)):
        await client.put(f"/api/following/{author_id}", headers=acting(viewer_id))
        assert (await get(client, "/api/feed", viewer_id))["items"] != []
    await client.put(f"/api/blocks/{bob}", headers=acting(ada))
    for viewer_id, author_id in ((ada, bob), (bob, ada)):
        post_id = written[author_id]
        answer = await client.get(f"/api/posts/{post_id}", headers=acting(viewer_id))
        never = await client.get(f"/api/posts/{NOBODY}", headers=acting(viewer_id))
        assert answer.json()["reason"] == "POST_NOT_FOUND"
        assert answer.json()["detail"] == never.json()["detail"].replace(NOBODY, post_id)
        assert await get(client, "/api/posts", viewer_id, ids=post_id) == {"items": []}
        assert await get(client, f"/api/users/{author_id}/posts", viewer_id) == {"items": []}
        shown = await get(client, "/api/feed", viewer_id)
        assert [post["id"] for post in shown["items"]] == [written[viewer_id]]
        told = await get(client, "/api/relationships", viewer_id, ids=author_id)
        assert told["items"][0]["blocking"] is (viewer_id == ada)
        refused = await client.put(f"/api/following/{author_id}", headers=acting(viewer_id))
        assert (refused.status_code, refused.json()["reason"]) == (409, "BLOCKED")
    assert (await get(client, f"/api/posts/{written[ada]}"))["id"] == written[ada]
    await client.delete(f"/api/blocks/{bob}", headers=acting(ada))
    assert (await get(client, f"/api/posts/{written[bob]}", ada))["id"] == written[bob]


async def test_the_page_of_a_blocked_author_ends_at_once_also_from_a_cursor_of_before(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    for _ in range(5):
        await create_post(client, bob)
    cursor = (await get(client, f"/api/users/{bob}/posts", ada, limit="2"))["nextCursor"]
    await client.put(f"/api/blocks/{bob}", headers=acting(ada))
    assert await get(client, f"/api/users/{bob}/posts", ada, limit="2") == {"items": []}
    assert await get(client, f"/api/users/{bob}/posts", ada, limit="2", cursor=cursor) == {"items": []}


async def test_a_mute_hides_from_the_feed_alone(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    await client.put(f"/api/following/{bob}", headers=acting(ada))
    post_id = await create_post(client, bob)
    await client.put(f"/api/mutes/{bob}", headers=acting(ada))
    assert await get(client, "/api/feed", ada) == NOTHING
    assert (await get(client, f"/api/posts/{post_id}", ada))["id"] == post_id
    assert len((await get(client, f"/api/users/{bob}/posts", ada))["items"]) == 1


async def test_relationships_are_told_for_each_distinct_id(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    await client.put(f"/api/following/{bob}", headers=acting(ada))
    assert await get(client, "/api/relationships", ada, ids=f"{bob},{NOBODY},{bob}") == {
        "items": [
            {"userId": bob, **STRANGERS, "following": True},
            {"userId": NOBODY, **STRANGERS},
        ]
    }


async def test_an_empty_feed_is_an_empty_list(client: httpx.AsyncClient, ada: str) -> None:
    assert await get(client, "/api/feed", ada) == NOTHING


async def test_a_feed_mixes_own_and_followed_posts_and_is_paged_to_its_end(
    client: httpx.AsyncClient, ada: str, bob: str
) -> None:
    await client.put(f"/api/following/{bob}", headers=acting(ada))
    created = [await create_post(client, author_id) for author_id in (ada, bob, bob)]
    first = await get(client, "/api/feed", ada, limit="2", view="latest")
    last = await get(client, "/api/feed", ada, limit="2", cursor=first["nextCursor"])
    assert [post["id"] for page in (first, last) for post in page["items"]] == created[::-1]
    assert first["nextCursor"].endswith(f":{created[1]}")
    assert last["view"] == "latest"
    assert "nextCursor" not in last


async def test_feeds_are_kept_by_nobody_on_the_way(client: httpx.AsyncClient, ada: str) -> None:
    answer = await client.get("/api/feed", headers=acting(ada))
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_head_gives_the_headers_of_get(client: httpx.AsyncClient, ada: str) -> None:
    shown = await client.get(f"/api/users/{ada}")
    head = await client.head(f"/api/users/{ada}")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == shown.headers["content-length"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
async def test_the_gateway_tells_of_itself(client: httpx.AsyncClient, path: str) -> None:
    assert await get(client, path)


async def test_a_repeated_key_gives_the_same_post(client: httpx.AsyncClient, ada: str) -> None:
    headers = acting(ada, **{"Idempotency-Key": "once"})
    first, second = [await client.post("/api/posts", json={"content": "hi"}, headers=headers) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert second.headers["location"] == first.headers["location"]


async def test_ten_at_once_with_one_key_make_one_post(client: httpx.AsyncClient, ada: str) -> None:
    headers = acting(ada, **{"Idempotency-Key": "at once"})
    answers = await asyncio.gather(
        *(client.post("/api/posts", json={"content": "hi"}, headers=headers) for _ in range(10))
    )
    assert {answer.status_code for answer in answers} <= {201, 409}
    ids = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    assert len(ids) == 1
    assert [post["id"] for post in (await get(client, f"/api/users/{ada}/posts"))["items"]] == list(ids)


async def test_a_key_is_its_author_s_own(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    key = {"Idempotency-Key": "shared"}
    answers = [
        await client.post("/api/posts", json={"content": "hi"}, headers=acting(author_id, **key))
        for author_id in (ada, bob)
    ]
    assert len({answer.json()["id"] for answer in answers}) == 2


async def test_a_key_used_for_another_text_is_refused(client: httpx.AsyncClient, ada: str) -> None:
    headers = acting(ada, **{"Idempotency-Key": "reused"})
    await client.post("/api/posts", json={"content": "one"}, headers=headers)
    answer = await client.post("/api/posts", json={"content": "other"}, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (422, "IDEMPOTENCY_KEY_REUSED")
