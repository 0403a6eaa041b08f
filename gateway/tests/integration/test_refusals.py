"""What is refused, with which status, and which parameter is named, through the real services."""

import json
import socket
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from devmesh.mesh import Mesh

pytestmark = pytest.mark.integration

NOBODY = 2**63 - 1
MEDIUM = {"url": "https://x.example/a.jpg", "type": "image"}


def check(answer: httpx.Response, status: int, reason: str, field: str | None = None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["reason"]) == (status, reason)
    assert len(problem["traceId"]) == 32
    assert field is None or field in [error["field"] for error in problem["errors"]]


@pytest.mark.parametrize(
    ("method", "path", "reason", "field"),
    [
        ("GET", "/api/feed?limit=0", "INVALID_FIELD", "limit"),
        ("GET", "/api/feed?limit=-1", "INVALID_FIELD", "limit"),
        ("GET", "/api/feed?limit=ten", "INVALID_FIELD", "limit"),
        ("GET", "/api/feed?limit=5.0", "INVALID_FIELD", "limit"),
        ("GET", "/api/feed?limit=1&limit=2", "INVALID_FIELD", "limit"),
        ("GET", "/api/feed?limit=%FF%00", "INVALID_FIELD", "limit"),
        ("GET", "/api/feed?view=best", "INVALID_FIELD", "view"),
        ("GET", "/api/feed?explain=yes", "INVALID_FIELD", "explain"),
        ("GET", "/api/feed?view=latest&cursor=r:0123456789abcdef:20", "INVALID_PAGE_TOKEN", "cursor"),
        ("GET", "/api/feed?view=ranked&cursor=1704067200000:1", "INVALID_PAGE_TOKEN", "cursor"),
        *(
            ("GET", f"/api/feed?cursor=r:{cursor}", "INVALID_PAGE_TOKEN", "cursor")
            for cursor in ("", "x", "0123456789abcdef", "0123456789abcdef:-1", "below:1", "%00", "%FF", "9" * 10_000)
        ),
        *(
            ("GET", f"/api/feed?cursor={cursor}", "INVALID_PAGE_TOKEN", "cursor")
            for cursor in ("...", "abc", ":", "1:", ":1", "1:2:3", "-1:-1", "9" * 10_000, "%FF")
        ),
        ("GET", "/api/users/1/posts?cursor=abc", "INVALID_PAGE_TOKEN", "cursor"),
        ("GET", "/api/users/1/posts?limit=0", "INVALID_FIELD", "limit"),
        ("GET", "/api/users/{ada}/followers?cursor=!", "INVALID_PAGE_TOKEN", "cursor"),
        ("GET", "/api/users/{ada}/following?cursor=!", "INVALID_PAGE_TOKEN", "cursor"),
        ("GET", f"/api/users/{{ada}}/followers?cursor={'x' * 10_000}", "INVALID_FIELD", "cursor"),
        ("GET", "/api/users/{ada}/followers?cursor=%00", "INVALID_PAGE_TOKEN", "cursor"),
        ("GET", "/api/users", "INVALID_FIELD", "ids"),
        ("GET", "/api/users?ids=", "INVALID_FIELD", "ids"),
        ("GET", "/api/posts?ids=1,x", "INVALID_FIELD", "ids"),
        ("GET", "/api/relationships?ids=" + ",".join("1" * 101), "INVALID_FIELD", "ids"),
        ("GET", "/api/users/abc", "INVALID_FIELD", "id"),
        ("GET", "/api/users/0", "INVALID_FIELD", "id"),
        ("GET", "/api/posts/9223372036854775808", "INVALID_FIELD", "id"),
        ("GET", "/api/posts/%00", "INVALID_FIELD", "id"),
        ("DELETE", "/api/posts/x", "INVALID_FIELD", "id"),
        ("PUT", "/api/following/-1", "INVALID_FIELD", "id"),
        ("DELETE", "/api/following/1.0", "INVALID_FIELD", "id"),
        ("PUT", "/api/blocks/0", "INVALID_FIELD", "id"),
        ("DELETE", "/api/mutes/x", "INVALID_FIELD", "id"),
        ("GET", "/api/blocks?limit=0", "INVALID_FIELD", "limit"),
        ("GET", "/api/blocks?cursor=!", "INVALID_PAGE_TOKEN", "cursor"),
        ("GET", "/api/mutes?cursor=!", "INVALID_PAGE_TOKEN", "cursor"),
        ("PUT", "/api/posts/0/like", "INVALID_FIELD", "id"),
        ("DELETE", "/api/posts/x/repost", "INVALID_FIELD", "id"),
        ("PUT", "/api/favourites/x", "INVALID_FIELD", "id"),
        ("GET", "/api/favourites?limit=0", "INVALID_FIELD", "limit"),
        ("GET", "/api/favourites?cursor=!", "INVALID_PAGE_TOKEN", "cursor"),
    ],
)
async def test_a_bad_parameter_is_named(
    *, client: httpx.AsyncClient, ada: str, method: str, path: str, reason: str, field: str
) -> None:
    check(await client.request(method, path.format(ada=ada), headers={"X-User-Id": ada}), 400, reason, field)


@pytest.mark.parametrize(
    ("path", "body", "reason", "field"),
    [
        ("/api/users", b"", "MALFORMED_BODY", "body"),
        ("/api/users", b"{", "MALFORMED_BODY", "body"),
        ("/api/users", b"{}", "MALFORMED_BODY", "name"),
        ("/api/users", b'{"name": null}', "MALFORMED_BODY", "name"),
        ("/api/users", b'{"name": ""}', "INVALID_FIELD", "name"),
        ("/api/users", b'{"name": "  "}', "INVALID_FIELD", "name"),
        ("/api/users", b'{"name": "a\\u0000b"}', "INVALID_FIELD", "name"),
        ("/api/users", json.dumps({"name": "x" * 101}).encode(), "INVALID_FIELD", "name"),
        ("/api/posts", b"[]", "MALFORMED_BODY", "body"),
        ("/api/posts", b'{"content": 1}', "MALFORMED_BODY", "content"),
        ("/api/posts", b'{"content": "\xff\xfe"}', "MALFORMED_BODY", "body"),
        ("/api/posts", b'{"content": "\\ud800"}', "MALFORMED_BODY", "body"),
        ("/api/posts", b'{"content": "\\u0000"}', "INVALID_FIELD", "content"),
        ("/api/posts", b'{"content": ""}', "INVALID_FIELD", "content"),
        ("/api/posts", b'{"content": " \\n "}', "INVALID_FIELD", "content"),
        ("/api/posts", json.dumps({"content": "🙂" * 5001}).encode(), "INVALID_FIELD", "content"),
        ("/api/posts", b'{"content": "", "x": ' + b"[" * 100_000, "MALFORMED_BODY", "body"),
        ("/api/posts", json.dumps({"content": "", "media": [MEDIUM] * 11}).encode(), "INVALID_FIELD", "media"),
        (
            "/api/posts",
            json.dumps({"content": "", "media": [{**MEDIUM, "url": "javascript:alert(1)"}]}).encode(),
            "INVALID_FIELD",
            "media[0].url",
        ),
        (
            "/api/posts",
            json.dumps({"content": "", "media": [{**MEDIUM, "altText": "x" * 1001}]}).encode(),
            "INVALID_FIELD",
            "media[0].altText",
        ),
        (
            "/api/posts",
            json.dumps({"content": "", "media": [{**MEDIUM, "width": 10**30}]}).encode(),
            "MALFORMED_BODY",
            "media[0].width",
        ),
        ("/api/posts", b'{"content": "x", "replyTo": "x"}', "MALFORMED_BODY", "replyTo"),
        ("/api/posts/1/feedback", b'{"kind": "boring"}', "MALFORMED_BODY", "kind"),
        ("/api/feed/impressions", b'{"impressions": []}', "MALFORMED_BODY", "impressions"),
        (
            "/api/feed/impressions",
            b'{"impressions": [{"postId": "1", "position": 0, "dwellMs": 3600001, "view": "latest"}]}',
            "INVALID_FIELD",
            "impressions[0].dwellMs",
        ),
        ("/api/following", b'{"userIds": []}', "MALFORMED_BODY", "userIds"),
        ("/api/following", b'{"userIds": ["1", "x"]}', "MALFORMED_BODY", "userIds[1]"),
        ("/api/following", json.dumps({"userIds": [1] * 1001}).encode(), "MALFORMED_BODY", "userIds"),
    ],
)
async def test_a_bad_body_names_the_member(
    *, client: httpx.AsyncClient, ada: str, path: str, body: bytes, reason: str, field: str
) -> None:
    headers = {"X-User-Id": ada, "Content-Type": "application/json"}
    check(await client.post(path, content=body, headers=headers), 400, reason, field)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/feed", None),
        ("GET", "/api/relationships?ids=1", None),
        ("POST", "/api/posts", {"content": "hi"}),
        ("PATCH", f"/api/posts/{NOBODY}", {"content": "hi"}),
        ("DELETE", f"/api/posts/{NOBODY}", None),
        ("GET", "/api/blocks", None),
        ("GET", "/api/mutes", None),
        ("PUT", "/api/blocks/1", None),
        ("DELETE", "/api/blocks/1", None),
        ("PUT", "/api/mutes/1", None),
        ("DELETE", "/api/mutes/1", None),
        ("PUT", "/api/following/1", None),
        ("DELETE", "/api/following/1", None),
        ("POST", "/api/following", {"userIds": ["1"]}),
    ],
)
@pytest.mark.parametrize("identity", [{}, {"X-User-Id": "abc"}, {"X-User-Id": "0"}, {"X-User-Id": "1, 2"}])
async def test_whoever_acts_must_say_who_they_are(
    client: httpx.AsyncClient, method: str, path: str, body: Any, identity: Mapping[str, str]
) -> None:
    answer = await client.request(method, path, json=body, headers=identity)
    check(answer, 401, "UNAUTHENTICATED", "X-User-Id")
    assert answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/feed", None),
        ("GET", "/api/relationships?ids=1", None),
        ("POST", "/api/posts", {"content": "hi"}),
        ("PATCH", f"/api/posts/{NOBODY}", {"content": "hi"}),
        ("GET", "/api/blocks", None),
        ("GET", "/api/mutes", None),
        ("PUT", "/api/blocks/{ada}", None),
        ("DELETE", "/api/blocks/{ada}", None),
        ("PUT", "/api/mutes/{ada}", None),
        ("DELETE", "/api/mutes/{ada}", None),
        ("PUT", "/api/following/{ada}", None),
        ("DELETE", "/api/following/{ada}", None),
        ("POST", "/api/following", {"userIds": ["1"]}),
    ],
)
async def test_an_identity_must_name_somebody(
    client: httpx.AsyncClient, ada: str, method: str, path: str, body: Any
) -> None:
    answer = await client.request(method, path.format(ada=ada), json=body, headers={"X-User-Id": str(NOBODY)})
    check(answer, 401, "UNAUTHENTICATED", "X-User-Id")


@pytest.mark.parametrize("path", ["/api/users/1", "/api/posts/1", "/api/users/1/posts", "/api/users?ids=1"])
async def test_where_nobody_need_say_who_they_are_nonsense_is_refused_still(
    client: httpx.AsyncClient, path: str
) -> None:
    check(await client.get(path, headers={"X-User-Id": "me"}), 401, "UNAUTHENTICATED", "X-User-Id")


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("GET", f"/api/users/{NOBODY}", "USER_NOT_FOUND"),
        ("GET", f"/api/users/{NOBODY}/posts", "USER_NOT_FOUND"),
        ("GET", f"/api/users/{NOBODY}/followers", "USER_NOT_FOUND"),
        ("GET", f"/api/users/{NOBODY}/following", "USER_NOT_FOUND"),
        ("GET", f"/api/posts/{NOBODY}", "POST_NOT_FOUND"),
        ("DELETE", f"/api/posts/{NOBODY}", "POST_NOT_FOUND"),
        ("PUT", f"/api/following/{NOBODY}", "USER_NOT_FOUND"),
        ("DELETE", f"/api/following/{NOBODY}", "USER_NOT_FOUND"),
        ("PUT", f"/api/blocks/{NOBODY}", "USER_NOT_FOUND"),
        ("DELETE", f"/api/blocks/{NOBODY}", "USER_NOT_FOUND"),
        ("PUT", f"/api/mutes/{NOBODY}", "USER_NOT_FOUND"),
        ("DELETE", f"/api/mutes/{NOBODY}", "USER_NOT_FOUND"),
        ("GET", "/api/nowhere", "ROUTE_NOT_FOUND"),
        ("GET", "/api/feed/", "ROUTE_NOT_FOUND"),
    ],
)
async def test_what_is_not_there_is_not_found(
    client: httpx.AsyncClient, ada: str, method: str, path: str, reason: str
) -> None:
    check(await client.request(method, path, headers={"X-User-Id": ada}), 404, reason)


async def test_another_s_post_cannot_be_deleted(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    created = await client.post("/api/posts", json={"content": "mine"}, headers={"X-User-Id": ada})
    answer = await client.delete(created.headers["location"], headers={"X-User-Id": bob})
    check(answer, 403, "NOT_THE_AUTHOR")


async def test_another_s_post_cannot_be_edited(client: httpx.AsyncClient, ada: str, bob: str) -> None:
    created = await client.post("/api/posts", json={"content": "mine"}, headers={"X-User-Id": ada})
    path = created.headers["location"]
    check(await client.patch(path, json={"content": "his"}, headers={"X-User-Id": bob}), 403, "NOT_THE_AUTHOR")
    assert (await client.get(path)).json() == created.json()


async def test_a_deleted_post_cannot_be_edited(client: httpx.AsyncClient, ada: str) -> None:
    created = await client.post("/api/posts", json={"content": "mine"}, headers={"X-User-Id": ada})
    path = created.headers["location"]
    await client.delete(path, headers={"X-User-Id": ada})
    check(await client.patch(path, json={"content": "x"}, headers={"X-User-Id": ada}), 404, "POST_NOT_FOUND")


@pytest.mark.parametrize(
    ("media", "changes", "field"),
    [
        ([], {"content": " "}, "content"),
        ([MEDIUM], {"content": "", "media": []}, "content"),
        ([MEDIUM], {"media": []}, "media"),
    ],
)
async def test_an_edit_that_leaves_nothing_to_see_is_refused(
    client: httpx.AsyncClient, ada: str, media: list[Any], changes: Any, field: str
) -> None:
    body = {"content": "" if media else "mine", "media": media}
    created = await client.post("/api/posts", json=body, headers={"X-User-Id": ada})
    answer = await client.patch(created.headers["location"], json=changes, headers={"X-User-Id": ada})
    check(answer, 400, "INVALID_FIELD", field)


@pytest.mark.parametrize("what", ["following", "blocks", "mutes"])
async def test_nobody_does_it_to_themselves(client: httpx.AsyncClient, ada: str, what: str) -> None:
    reason = {"following": "CANNOT_FOLLOW_SELF", "blocks": "CANNOT_BLOCK_SELF", "mutes": "CANNOT_MUTE_SELF"}[what]
    check(await client.put(f"/api/{what}/{ada}", headers={"X-User-Id": ada}), 422, reason)


async def test_a_wrong_method_tells_the_right_ones(client: httpx.AsyncClient) -> None:
    answer = await client.patch("/api/posts")
    check(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_what_says_it_is_no_json_is_refused(client: httpx.AsyncClient, ada: str, content_type: str) -> None:
    headers = {"X-User-Id": ada, "Content-Type": content_type}
    answer = await client.post("/api/posts", content=b'{"content": "hi"}', headers=headers)
    check(answer, 415, "UNSUPPORTED_MEDIA_TYPE", "Content-Type")


async def test_json_that_does_not_say_so_is_understood(client: httpx.AsyncClient, ada: str) -> None:
    answer = await client.post("/api/posts", content=b'{"content": "hi", "mood": 1}', headers={"X-User-Id": ada})
    assert answer.status_code == 201


async def test_a_key_that_is_too_long_is_named(client: httpx.AsyncClient, ada: str) -> None:
    headers = {"X-User-Id": ada, "Idempotency-Key": "k" * 256}
    answer = await client.post("/api/posts", json={"content": "hi"}, headers=headers)
    check(answer, 400, "INVALID_FIELD", "Idempotency-Key")


@pytest.mark.parametrize(
    ("limit", "count"), [("", 20), ("1", 1), ("50", 50), ("51", 50), ("1000000", 50), ("9" * 30, 50)]
)
async def test_no_page_is_larger_than_50(client: httpx.AsyncClient, author_of_60: str, limit: str, count: int) -> None:
    answer = await client.get("/api/feed", params={"limit": limit}, headers={"X-User-Id": author_of_60})
    assert len(answer.json()["items"]) == count


@pytest.fixture(scope="module")
def author_of_60(mesh: Mesh) -> str:
    """Somebody who wrote 60 posts."""
    with httpx.Client(base_url=mesh.addresses.gateway, trust_env=False) as client:
        user_id = client.post("/api/users", json={"name": "Prolific"}).json()["id"]
        for number in range(60):
            client.post("/api/posts", json={"content": f"{number}"}, headers={"X-User-Id": user_id}).raise_for_status()
    return user_id


class TestTenMegabytes:
    """The client sends it all before it reads; the connection must not be reset under the answer."""

    body = b'{"content": "' + b"x" * 10_000_000 + b'"}'

    def exchange(self, mesh: Mesh, headers: bytes, body: bytes) -> bytes:
        address = urlsplit(mesh.addresses.gateway)
        assert address.hostname is not None
        assert address.port is not None
        with closing(socket.create_connection((address.hostname, address.port), timeout=30)) as connection:
            connection.sendall(b"POST /api/posts HTTP/1.1\r\nHost: x\r\nX-User-Id: 1\r\n" + headers + b"\r\n" + body)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        return answer

    def check(self, answer: bytes) -> None:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"\r\nconnection: close" in head
        problem = json.loads(body)
        assert (problem["reason"], problem["errors"][0]["field"]) == ("MESSAGE_TOO_LARGE", "body")

    def test_announced_is_refused(self, mesh: Mesh) -> None:
        self.check(self.exchange(mesh, b"Content-Length: %d\r\n" % len(self.body), self.body))

    def test_in_chunks_is_refused(self, mesh: Mesh) -> None:
        chunks = b"".join(
            b"10000\r\n" + self.body[place : place + 0x10000] + b"\r\n" for place in range(0, 9_000_000, 0x10000)
        )
        self.check(self.exchange(mesh, b"Transfer-Encoding: chunked\r\n", chunks + b"0\r\n\r\n"))

    def test_waiting_for_leave_is_refused_without_being_sent(self, mesh: Mesh) -> None:
        headers = b"Content-Length: %d\r\nExpect: 100-continue\r\n" % len(self.body)
        self.check(self.exchange(mesh, headers, b""))
