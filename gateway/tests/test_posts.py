"""What the routes of posts ask the services for, and what they make of the answers."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feedkit.cursor import MAX_ID
from feedkit.errors import post_not_found
from gateway.config import AuthMode, GatewaySettings
from gateway.routes.health import Health
from gateway.services import Services
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from gateway import app

EDITED = post_pb2.Post(
    id=5, author_id=7, content="other", created_at_ms=1_704_067_200_000, edited_at_ms=1_704_067_201_000
)
GONE = 99
MEDIUM = {"url": "https://x.example/a.jpg", "type": "image", "altText": "a cat"}


@dataclass
class Neighbours:
    """A `graph` that knows one user, a `post` that edits, and a `hydrate` that withholds; they note what they are asked."""

    standing: graph_pb2.UserStanding.ValueType = graph_pb2.USER_STANDING_ACTIVE
    withheld: hydrate_pb2.WithheldReason.ValueType = hydrate_pb2.WITHHELD_REASON_NOT_FOUND
    asked: list[Message] = field(default_factory=list[Message])

    async def BatchGetUsers(self, request: graph_pb2.BatchGetUsersRequest) -> graph_pb2.BatchGetUsersResponse:
        users = [graph_pb2.User(id=7, name="Ada", standing=self.standing)] if list(request.user_ids) == [7] else []
        return graph_pb2.BatchGetUsersResponse(users=users)

    async def EditPost(self, request: post_pb2.EditPostRequest) -> post_pb2.EditPostResponse:
        self.asked.append(request)
        return post_pb2.EditPostResponse(post=EDITED, counts=post_pb2.EngagementCounts(likes=3))

    async def CreatePost(self, request: post_pb2.CreatePostRequest) -> post_pb2.CreatePostResponse:
        self.asked.append(request)
        if request.reply_to_post_id == GONE:
            raise post_not_found(GONE)
        post = post_pb2.Post(id=6, author_id=7, content="new", reply_to_post_id=request.reply_to_post_id)
        return post_pb2.CreatePostResponse(post=post, replayed=request.idempotency_key == "again")

    async def HydratePosts(self, request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
        self.asked.append(request)
        hydrations = [hydrate_pb2.Hydration(post_id=each, withheld=self.withheld) for each in request.post_ids]
        return hydrate_pb2.HydratePostsResponse(hydrations=hydrations)


@pytest.fixture
def neighbours() -> Neighbours:
    return Neighbours()


@pytest.fixture
async def client(neighbours: Neighbours) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a gateway with these neighbours, acting as the user."""
    stub = cast("Any", neighbours)
    gateway = app.create(Services(stub, stub, stub, stub), Health(), GatewaySettings(auth_mode=AuthMode.DEV))
    transport, identity = httpx.ASGITransport(gateway), {"X-User-Id": "7"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=identity) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "request_for_it"),
    [
        ({"content": "other"}, {"update_mask": FieldMask(paths=["content"]), "content": "other"}),
        ({"content": ""}, {"update_mask": FieldMask(paths=["content"])}),
        ({"media": []}, {"update_mask": FieldMask(paths=["media"])}),
        (
            {"content": "other", "media": [MEDIUM]},
            {
                "update_mask": FieldMask(paths=["content", "media"]),
                "content": "other",
                "media": [post_pb2.MediaReference(url=MEDIUM["url"], type="image", alt_text="a cat")],
            },
        ),
    ],
)
async def test_an_edit_names_what_is_there_and_nothing_else(
    neighbours: Neighbours, client: httpx.AsyncClient, body: Any, request_for_it: dict[str, Any]
) -> None:
    assert (await client.patch("/api/posts/5", json=body)).status_code == 200
    assert neighbours.asked == [post_pb2.EditPostRequest(actor_id=7, post_id=5, **request_for_it)]


async def test_an_edit_answers_as_a_create_does(client: httpx.AsyncClient) -> None:
    answer = await client.patch("/api/posts/5", json={"content": "other"})
    assert answer.json() == {
        "id": "5",
        "authorId": "7",
        "author": {"id": "7", "name": "Ada"},
        "content": "other",
        "media": [],
        "createdAt": "2024-01-01T00:00:00.000Z",
        "editedAt": "2024-01-01T00:00:01.000Z",
        "replyTo": None,
        "counts": {"likes": 3, "reposts": 0, "replies": 0},
    }


@pytest.mark.parametrize("key", ["once", "again"])
async def test_a_new_post_has_been_met_by_nobody(client: httpx.AsyncClient, key: str) -> None:
    """Also where it is asked for again: the answer is that of the first time."""
    answer = await client.post("/api/posts", json={"content": "new"}, headers={"Idempotency-Key": key})
    assert answer.json()["counts"] == {"likes": 0, "reposts": 0, "replies": 0}


@pytest.mark.parametrize(
    ("member", "post_id"),
    [({}, 0), ({"replyTo": None}, 0), ({"replyTo": "5"}, 5), ({"replyTo": 5}, 5), ({"replyTo": str(MAX_ID)}, MAX_ID)],
)
async def test_a_reply_names_what_it_replies_to(
    neighbours: Neighbours, client: httpx.AsyncClient, member: Any, post_id: int
) -> None:
    answer = await client.post("/api/posts", json={"content": "new", **member})
    (asked,) = neighbours.asked
    assert isinstance(asked, post_pb2.CreatePostRequest)
    assert (asked.reply_to_post_id, answer.json()["replyTo"]) == (post_id, str(post_id) if post_id else None)


async def test_a_reply_to_what_is_not_there_names_the_member(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/posts", json={"content": "new", "replyTo": str(GONE)})
    assert (answer.status_code, answer.json()["reason"]) == (404, "POST_NOT_FOUND")
    assert answer.json()["errors"] == [{"field": "replyTo", "rule": "names no post"}]


@pytest.mark.parametrize("call", [("PATCH", "/api/posts/5"), ("POST", "/api/posts")])
async def test_whoever_is_suspended_neither_posts_nor_edits(
    neighbours: Neighbours, client: httpx.AsyncClient, call: tuple[str, str]
) -> None:
    neighbours.standing = graph_pb2.USER_STANDING_SUSPENDED
    answer = await client.request(*call, json={"content": "other"})
    assert (answer.status_code, answer.json()["reason"]) == (403, "ACCOUNT_SUSPENDED")
    assert neighbours.asked == []


@pytest.mark.parametrize("call", [("PATCH", "/api/posts/5"), ("POST", "/api/posts")])
async def test_whoever_is_gone_names_nobody(
    neighbours: Neighbours, client: httpx.AsyncClient, call: tuple[str, str]
) -> None:
    answer = await client.request(*call, json={"content": "other"}, headers={"X-User-Id": "8"})
    assert (answer.status_code, answer.json()["reason"]) == (401, "UNAUTHENTICATED")
    assert neighbours.asked == []


async def test_posts_are_asked_for_as_by_themselves(neighbours: Neighbours, client: httpx.AsyncClient) -> None:
    await client.get("/api/posts/5")
    await client.get("/api/posts?ids=5,6")
    surface = hydrate_pb2.SURFACE_POST
    assert neighbours.asked == [
        hydrate_pb2.HydratePostsRequest(viewer_id=7, post_ids=post_ids, surface=surface) for post_ids in ([5], [5, 6])
    ]


async def test_why_a_post_is_withheld_is_not_told(neighbours: Neighbours, client: httpx.AsyncClient) -> None:
    told: list[tuple[int, Any]] = []
    for reason in hydrate_pb2.WithheldReason.values():
        neighbours.withheld = reason
        answer = await client.get("/api/posts/5")
        told.append((answer.status_code, {**answer.json(), "traceId": ""}))
        assert (await client.get("/api/posts?ids=5")).json() == {"items": []}
    assert told[0][0] == 404
    assert told == [told[0]] * len(told)
