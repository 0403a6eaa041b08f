"""The services that hydrate stands between, as real processes."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import grpc.aio
import pytest
from collector import Collector, collecting
from devmesh.mesh import Mesh
from devmesh.ports import free_ports
from devmesh.processes import PROCESSES
from feed.graph.v1 import accounts_pb2, accounts_pb2_grpc, graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import redis
from feedkit.channel import connect

if TYPE_CHECKING:
    from feed.graph.v1.accounts_pb2_grpc import AccountServiceAsyncStub
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub
    from feed.hydrate.v1.hydrate_pb2_grpc import HydrateServiceAsyncStub
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub

NEEDED = ("post", "graph", "hydrate")


@pytest.fixture(scope="session")
def collector_port() -> int:
    """Where the collector of metrics is to be found."""
    (port,) = free_ports(1)
    return port


@pytest.fixture(scope="session")
def collector(collector_port: int) -> Iterator[Collector]:
    """What the processes count, told almost at once."""
    with collecting(collector_port) as collector:
        yield collector


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory, collector: Collector, collector_port: int) -> Iterator[Mesh]:
    """Whoever stops one of its processes starts it again."""
    processes = [process for process in PROCESSES if process.name in NEEDED]
    settings = {
        "FEED_DRAIN_SECONDS": "0",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector_port}",
    }
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
        self,
        graph: "GraphServiceAsyncStub",
        accounts: "AccountServiceAsyncStub",
        operator: str,
        *,
        post: "PostServiceAsyncStub",
        hydrate: "HydrateServiceAsyncStub",
    ) -> None:
        """`operator` is the token by which operators are known."""
        self._graph = graph
        self._accounts = accounts
        self._operator = [("authorization", f"Bearer {operator}")]
        self._post = post
        self._hydrate = hydrate

    async def user(self, name: str = "Ann") -> int:
        """The id of a new user."""
        return (await self._graph.CreateUser(graph_pb2.CreateUserRequest(name=name))).user.id

    async def posted(
        self, author_id: int, content: str = "hello", *, reply_to: post_pb2.Post | None = None
    ) -> post_pb2.Post:
        """A new post."""
        request = post_pb2.CreatePostRequest(
            author_id=author_id, content=content, reply_to_post_id=reply_to.id if reply_to else 0
        )
        return (await self._post.CreatePost(request)).post

    async def like(self, actor_id: int, post: post_pb2.Post) -> None:
        """Make a user like a post."""
        await self._post.Engage(
            post_pb2.EngageRequest(actor_id=actor_id, post_id=post.id, engagement=post_pb2.ENGAGEMENT_LIKE)
        )

    async def delete(self, post: post_pb2.Post) -> None:
        """Delete a post as its author."""
        await self._post.DeletePost(post_pb2.DeletePostRequest(actor_id=post.author_id, post_id=post.id))

    async def block(self, actor_id: int, blocked_id: int) -> None:
        """Make one user block another."""
        await self._graph.Block(graph_pb2.BlockRequest(actor_id=actor_id, blocked_id=blocked_id))

    async def unblock(self, actor_id: int, blocked_id: int) -> None:
        """End a block."""
        await self._graph.Unblock(graph_pb2.UnblockRequest(actor_id=actor_id, blocked_id=blocked_id))

    async def mute(self, actor_id: int, muted_id: int) -> None:
        """Make one user mute another."""
        await self._graph.Mute(graph_pb2.MuteRequest(actor_id=actor_id, muted_id=muted_id))

    async def unmute(self, actor_id: int, muted_id: int) -> None:
        """End a mute."""
        await self._graph.Unmute(graph_pb2.UnmuteRequest(actor_id=actor_id, muted_id=muted_id))

    async def suspend(self, user_id: int) -> None:
        """Suspend an account, as an operator."""
        await self._accounts.SuspendUser(accounts_pb2.SuspendUserRequest(user_id=user_id), metadata=self._operator)

    async def restore(self, user_id: int) -> None:
        """Restore an account, as an operator."""
        await self._accounts.RestoreUser(accounts_pb2.RestoreUserRequest(user_id=user_id), metadata=self._operator)

    async def delete_account(self, user_id: int) -> None:
        """Delete an account, as an operator."""
        await self._accounts.DeleteUser(accounts_pb2.DeleteUserRequest(user_id=user_id), metadata=self._operator)

    async def hydrate(
        self,
        *post_ids: int,
        author_ids: Sequence[int] = (),
        viewer: int = 0,
        surface: "hydrate_pb2.Surface.ValueType" = hydrate_pb2.SURFACE_UNSPECIFIED,
        seconds: float = 5.0,
    ) -> list[hydrate_pb2.Hydration]:
        """What hydrate makes of these ids."""
        request = hydrate_pb2.HydratePostsRequest(
            viewer_id=viewer, post_ids=post_ids, author_ids=author_ids, surface=surface
        )
        return list((await self._hydrate.HydratePosts(request, timeout=seconds)).hydrations)

    async def shown(
        self, post: post_pb2.Post, viewer: int, surface: "hydrate_pb2.Surface.ValueType" = hydrate_pb2.SURFACE_FEED
    ) -> str:
        """What a viewer gets of a post: SHOWN, the reason why not, or who did not answer."""
        (hydration,) = await self.hydrate(post.id, author_ids=[post.author_id], viewer=viewer, surface=surface)
        match hydration.WhichOneof("outcome"):
            case "post":
                return "SHOWN"
            case "withheld":
                return hydrate_pb2.WithheldReason.Name(hydration.withheld).removeprefix("WITHHELD_REASON_")
            case _:
                return hydration.unavailable.dependency


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
            accounts_pb2_grpc.AccountServiceStub(
                await channels.enter_async_context(grpc.aio.insecure_channel(addresses["graph"]))
            ),
            mesh.addresses.operator_token,
            post=post_pb2_grpc.PostServiceStub(
                await channels.enter_async_context(connect(addresses["post"], post, "post"))
            ),
            hydrate=hydrate_pb2_grpc.HydrateServiceStub(
                await channels.enter_async_context(connect(addresses["hydrate"], hydrate, "hydrate"))
            ),
        )
