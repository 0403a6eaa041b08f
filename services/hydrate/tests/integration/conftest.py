"""The services that hydrate stands between, as real processes."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import redis
from feedkit.channel import connect

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub
    from feed.hydrate.v1.hydrate_pb2_grpc import HydrateServiceAsyncStub
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub

NEEDED = ("post", "graph", "hydrate")


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Whoever stops one of its processes starts it again."""
    processes = [process for process in PROCESSES if process.name in NEEDED]
    settings = {"FEED_DRAIN_SECONDS": "0"}
    with Mesh(settings, directory=tmp_path_factory.mktemp("mesh"), processes=processes) as mesh:
        yield mesh


@pytest.fixture
async def cache(mesh: Mesh) -> AsyncIterator[redis.Redis]:
    """The mesh's Redis."""
    async with redis.connect(redis.RedisSettings.model_validate({"redis_url": mesh.addresses.redis})) as client:
        yield client


class Services:
    """Clients of the services; failures are domain errors."""

    def __init__(
        self, graph: "GraphServiceAsyncStub", post: "PostServiceAsyncStub", hydrate: "HydrateServiceAsyncStub"
    ) -> None:
        self._graph = graph
        self._post = post
        self._hydrate = hydrate

    async def user(self, name: str = "Ann") -> int:
        """The id of a new user."""
        return (await self._graph.CreateUser(graph_pb2.CreateUserRequest(name=name))).user.id

    async def posted(self, author_id: int, content: str = "hello") -> post_pb2.Post:
        """A new post."""
        return (await self._post.CreatePost(post_pb2.CreatePostRequest(author_id=author_id, content=content))).post

    async def delete(self, post: post_pb2.Post) -> None:
        """Delete a post as its author."""
        await self._post.DeletePost(post_pb2.DeletePostRequest(actor_id=post.author_id, post_id=post.id))

    async def hydrate(
        self, *post_ids: int, author_ids: Sequence[int] = (), seconds: float = 5.0
    ) -> list[hydrate_pb2.Hydration]:
        """What hydrate makes of these ids."""
        request = hydrate_pb2.HydratePostsRequest(post_ids=post_ids, author_ids=author_ids)
        return list((await self._hydrate.HydratePosts(request, timeout=seconds)).hydrations)


@pytest.fixture
async def services(mesh: Mesh) -> AsyncIterator[Services]:
    """Clients of the running services."""
    addresses = mesh.addresses.grpc
    graph = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
    post = post_pb2.DESCRIPTOR.services_by_name["PostService"]
    hydrate = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
    async with AsyncExitStack() as channels:
        yield Services(
            graph_pb2_grpc.GraphServiceStub(
                await channels.enter_async_context(connect(addresses["graph"], graph, "graph"))
            ),
            post_pb2_grpc.PostServiceStub(await channels.enter_async_context(connect(addresses["post"], post, "post"))),
            hydrate_pb2_grpc.HydrateServiceStub(
                await channels.enter_async_context(connect(addresses["hydrate"], hydrate, "hydrate"))
            ),
        )
