"""The services that a home timeline is made by, as real processes."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from devmesh.backends.valkey import Valkey
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed.graph.v1 import accounts_pb2, accounts_pb2_grpc, graph_pb2, graph_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit.channel import connect

from .neighbours import Neighbours
from .running import ANN, BOB, STAR, VIEWER, Timeline, started

if TYPE_CHECKING:
    from feed.graph.v1.accounts_pb2_grpc import AccountServiceAsyncStub
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub
    from feed.timeline.v1.timeline_pb2_grpc import TimelineServiceAsyncStub

NEEDED = ("post", "graph", "hydrate", "timeline")
MOST_REQUESTS = 100


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Whoever stops one of its processes starts it again."""
    processes = [process for process in PROCESSES if process.name in NEEDED]
    settings = {"FEED_DRAIN_SECONDS": "0"}
    with Mesh(settings, directory=tmp_path_factory.mktemp("mesh"), processes=processes) as mesh:
        yield mesh


class Services:
    """Clients of the services; failures are domain errors."""

    def __init__(
        self,
        graph: "GraphServiceAsyncStub",
        accounts: "AccountServiceAsyncStub",
        operator: str,
        *,
        post: "PostServiceAsyncStub",
        timeline: "TimelineServiceAsyncStub",
    ) -> None:
        """`operator` is the token by which operators are known."""
        self._graph = graph
        self._accounts = accounts
        self._operator = [("authorization", f"Bearer {operator}")]
        self._post = post
        self._timeline = timeline

    async def user(self, name: str = "Ann") -> int:
        """The id of a new user."""
        return (await self._graph.CreateUser(graph_pb2.CreateUserRequest(name=name))).user.id

    async def follow(self, actor_id: int, followee_id: int) -> None:
        """Make one user follow another."""
        await self._graph.Follow(graph_pb2.FollowRequest(actor_id=actor_id, followee_id=followee_id))

    async def unfollow(self, actor_id: int, followee_id: int) -> None:
        """Make one user follow another no longer."""
        await self._graph.Unfollow(graph_pb2.UnfollowRequest(actor_id=actor_id, followee_id=followee_id))

    async def block(self, actor_id: int, blocked_id: int) -> None:
        """Make one user block another."""
        await self._graph.Block(graph_pb2.BlockRequest(actor_id=actor_id, blocked_id=blocked_id))

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

    async def posted(self, author_id: int, content: str = "hello") -> int:
        """The id of a new post."""
        request = post_pb2.CreatePostRequest(author_id=author_id, content=content)
        return (await self._post.CreatePost(request)).post.id

    async def delete(self, actor_id: int, post_id: int) -> None:
        """Delete a post as its author."""
        await self._post.DeletePost(post_pb2.DeletePostRequest(actor_id=actor_id, post_id=post_id))

    async def page(
        self, viewer_id: int, *, seconds: float = 5.0, **request: Any
    ) -> timeline_pb2.GetHomeTimelineResponse:
        """A page; `request` are further fields."""
        message = timeline_pb2.GetHomeTimelineRequest(viewer_id=viewer_id, **request)
        return await self._timeline.GetHomeTimeline(message, timeout=seconds)

    async def walk(self, viewer_id: int, page_size: int = 0, page_token: str = "") -> list[list[int]]:
        """The ids of every page from a position to the end."""
        pages: list[list[int]] = []
        tokens = {page_token}
        for _ in range(MOST_REQUESTS):
            page = await self.page(viewer_id, page_size=page_size, page_token=page_token)
            pages.append([shown.post.id for shown in page.posts])
            page_token = page.next_page_token
            if not page_token:
                return pages
            assert page_token not in tokens, "a token that came before"
            tokens.add(page_token)
        raise AssertionError(f"no end after {MOST_REQUESTS} pages")


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """A Redis server, which whoever uses it empties first."""
    with Valkey() as server:
        yield server


@pytest.fixture
def truth() -> Neighbours:
    """A viewer, two whom they follow, and one who is followed by so many that nothing is pushed; 100 posts by turns."""
    truth = Neighbours()
    truth.follows[VIEWER] = {ANN, BOB, STAR}
    truth.pulled = [STAR]
    authors = (ANN, BOB, STAR, VIEWER)
    truth.posts = {(post << 22) + post: authors[post % 4] for post in range(1, 101)}
    return truth


@pytest.fixture
async def timeline(valkey: Valkey, truth: Neighbours) -> AsyncIterator[Timeline]:
    """The process, serving, over an empty Redis."""
    async with started(valkey, truth) as timeline:
        yield timeline


@pytest.fixture
async def services(mesh: Mesh) -> AsyncIterator[Services]:
    """Clients of the running services."""
    addresses = mesh.addresses.grpc
    graph = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
    post = post_pb2.DESCRIPTOR.services_by_name["PostService"]
    timeline = timeline_pb2.DESCRIPTOR.services_by_name["TimelineService"]
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
            timeline=timeline_pb2_grpc.TimelineServiceStub(
                await channels.enter_async_context(connect(addresses["timeline"], timeline, "timeline"))
            ),
        )
