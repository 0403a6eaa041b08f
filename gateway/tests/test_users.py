"""What the routes of users ask the services for."""

from dataclasses import dataclass, field
from typing import Any, cast

import httpx
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from gateway.config import AuthMode, GatewaySettings
from gateway.routes.health import Health
from gateway.services import Services

from gateway import app


@dataclass
class Neighbours:
    """A service `post` that knows of three posts, and a `hydrate` that notes what it is asked."""

    asked: list[hydrate_pb2.HydratePostsRequest] = field(default_factory=list[hydrate_pb2.HydratePostsRequest])

    async def ListAuthorPostIds(self, request: post_pb2.ListAuthorPostIdsRequest) -> post_pb2.ListAuthorPostIdsResponse:
        return post_pb2.ListAuthorPostIdsResponse(post_ids=[30, 20, 10])

    async def HydratePosts(self, request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
        self.asked.append(request)
        return hydrate_pb2.HydratePostsResponse()


async def test_an_authors_page_tells_hydrate_who_wrote_it() -> None:
    """Which saves it a round trip."""
    neighbours = Neighbours()
    stub = cast("Any", neighbours)
    gateway = app.create(Services(stub, stub, stub, stub), Health(), GatewaySettings(auth_mode=AuthMode.DEV))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway), base_url="http://gateway") as client:
        assert (await client.get("/api/users/7/posts", headers={"X-User-Id": "3"})).is_success
    assert neighbours.asked == [
        hydrate_pb2.HydratePostsRequest(viewer_id=3, post_ids=[30, 20, 10], author_ids=[7, 7, 7])
    ]
