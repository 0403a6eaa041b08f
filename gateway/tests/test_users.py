"""What the routes of users ask the services for, and what they make of the answers."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from gateway.config import AuthMode, GatewaySettings
from gateway.routes.health import Health
from gateway.services import Services

from gateway import app

AUTHOR = graph_pb2.User(id=7, name="Ada")


@dataclass
class Neighbours:
    """A service `post` that knows of three posts and more, a `hydrate` that notes what it is asked, and a `graph`."""

    users: list[graph_pb2.User] = field(default_factory=lambda: [AUTHOR])
    withheld: hydrate_pb2.WithheldReason.ValueType = hydrate_pb2.WITHHELD_REASON_NOT_FOUND
    asked: list[hydrate_pb2.HydratePostsRequest] = field(default_factory=list[hydrate_pb2.HydratePostsRequest])

    async def ListAuthorPostIds(self, request: post_pb2.ListAuthorPostIdsRequest) -> post_pb2.ListAuthorPostIdsResponse:
        return post_pb2.ListAuthorPostIdsResponse(post_ids=[30, 20, 10], next_page_token="1:10")  # noqa: S106 (no password)

    async def HydratePosts(self, request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
        self.asked.append(request)
        hydrations = [hydrate_pb2.Hydration(post_id=each, withheld=self.withheld) for each in request.post_ids]
        return hydrate_pb2.HydratePostsResponse(hydrations=hydrations)

    async def BatchGetUsers(self, request: graph_pb2.BatchGetUsersRequest) -> graph_pb2.BatchGetUsersResponse:
        return graph_pb2.BatchGetUsersResponse(users=[user for user in self.users if user.id in request.user_ids])


@pytest.fixture
def neighbours() -> Neighbours:
    return Neighbours()


@pytest.fixture
async def client(neighbours: Neighbours) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a gateway with these neighbours."""
    stub = cast("Any", neighbours)
    gateway = app.create(Services(stub, stub, stub, stub), Health(), GatewaySettings(auth_mode=AuthMode.DEV))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway), base_url="http://gateway") as client:
        yield client


async def test_an_authors_page_tells_hydrate_who_wrote_it_and_where_it_is_shown(
    neighbours: Neighbours, client: httpx.AsyncClient
) -> None:
    """The first saves it a round trip."""
    assert (await client.get("/api/users/7/posts", headers={"X-User-Id": "3"})).is_success
    assert neighbours.asked == [
        hydrate_pb2.HydratePostsRequest(
            viewer_id=3, post_ids=[30, 20, 10], author_ids=[7, 7, 7], surface=hydrate_pb2.SURFACE_POST
        )
    ]


async def test_a_page_of_deleted_posts_goes_on(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/users/7/posts")).json() == {"items": [], "nextCursor": "1:10"}


@pytest.mark.parametrize("reason", ["AUTHOR_SUSPENDED", "BLOCKED"])
async def test_the_page_of_an_author_who_is_withheld_is_empty_and_the_last(
    neighbours: Neighbours, client: httpx.AsyncClient, reason: str
) -> None:
    neighbours.withheld = hydrate_pb2.WithheldReason.Value(f"WITHHELD_REASON_{reason}")
    answer = await client.get("/api/users/7/posts", headers={"X-User-Id": "3"})
    assert (answer.status_code, answer.json()) == (200, {"items": []})


async def test_an_author_who_was_deleted_since_the_posts_were_listed_is_not_found(
    neighbours: Neighbours, client: httpx.AsyncClient
) -> None:
    """By then the posts are gone, each by itself."""
    neighbours.users.clear()
    assert (await client.get("/api/users/7/posts")).json()["reason"] == "USER_NOT_FOUND"


async def test_an_author_whose_posts_have_yet_to_be_erased_is_not_found(
    neighbours: Neighbours, client: httpx.AsyncClient
) -> None:
    """As afterwards."""
    neighbours.withheld, neighbours.users = hydrate_pb2.WITHHELD_REASON_AUTHOR_NOT_FOUND, []
    answer = await client.get("/api/users/7/posts")
    assert (answer.status_code, answer.json()["reason"]) == (404, "USER_NOT_FOUND")
