"""The services beside `timeline`, by their contracts: one server over a truth in memory, which counts its calls."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import grpc.aio
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from grpc_health.v1 import health as _health
from grpc_health.v1 import health_pb2_grpc as _health_grpc

health, health_grpc = cast("Any", _health), cast("Any", _health_grpc)  # published without types


async def _nothing() -> None:
    """Happens before a call, as a rule."""


class Neighbours:
    """The truth, and what was asked of it."""

    def __init__(self) -> None:
        self.follows: dict[int, set[int]] = {}
        self.favourites: set[int] = set()
        """Whom the viewer has made favourites."""
        self.prefers_ranked = False
        """Whether the viewer has chosen the ranked view."""
        self.posts: dict[int, int] = {}
        """Post → author."""
        self.traits: dict[int, post_pb2.PostTraits] = {}
        """Those of posts that have any."""
        self.pulled: list[int] = []
        """In the order in which they entered the index."""
        self.left: dict[int, int] = {}
        """The version of the index with which an author left it."""
        self.withheld: dict[int, hydrate_pb2.WithheldReason.ValueType] = {}
        """Why an author's posts are withheld from the viewer."""
        self.calls: Counter[str] = Counter()
        """How often each method was called."""
        self.away: set[str] = set()
        """Methods that do not answer."""
        self.before: Mapping[str, Callable[[], Awaitable[None]]] = {}
        """What happens, by method, between its reading of the truth and its answer."""
        self.hydrated: list[hydrate_pb2.HydratePostsRequest] = []
        self.rebuilds: list[int] = []
        self.active: list[int] = []

    def timeline_of(self, viewer_id: int) -> list[int]:
        """The oracle."""
        authors = {viewer_id, *self.follows[viewer_id]} - self.withheld.keys()
        return sorted((post for post, author in self.posts.items() if author in authors), reverse=True)

    async def called(self, context: Any, method: str) -> None:
        """A method was called, and has read what it needs."""
        self.calls[method] += 1
        await self.before.get(method, _nothing)()
        if method in self.away:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "away")


class _Graph(graph_pb2_grpc.GraphServiceServicer):
    def __init__(self, truth: Neighbours) -> None:
        self._truth = truth

    async def GetViewerContext(self, request: graph_pb2.GetViewerContextRequest, context: Any) -> Any:
        followees = sorted(self._truth.follows[request.viewer_id])
        chosen = graph_pb2.HOME_VIEW_RANKED if self._truth.prefers_ranked else graph_pb2.HOME_VIEW_LATEST
        await self._truth.called(context, "GetViewerContext")
        return graph_pb2.GetViewerContextResponse(
            followee_ids=followees, favourite_ids=sorted(self._truth.favourites), home_view=chosen
        )

    async def RecordActivity(self, request: graph_pb2.RecordActivityRequest, context: Any) -> Any:
        await self._truth.called(context, "RecordActivity")
        self._truth.active.append(request.user_id)
        return graph_pb2.RecordActivityResponse()

    async def ListPulledAuthors(self, request: graph_pb2.ListPulledAuthorsRequest, context: Any) -> Any:
        truth, since = self._truth, request.since_version
        version = max(len(truth.pulled), *truth.left.values(), 0)
        entered = [author for author in truth.pulled[since:] if author not in truth.left]
        left = [author for author, version in truth.left.items() if version > since]
        await truth.called(context, "ListPulledAuthors")
        return graph_pb2.ListPulledAuthorsResponse(version=version, entered_author_ids=entered, left_author_ids=left)


class _Post(post_pb2_grpc.PostServiceServicer):
    def __init__(self, truth: Neighbours) -> None:
        self._truth = truth

    async def ListRecentByAuthors(self, request: post_pb2.ListRecentByAuthorsRequest, context: Any) -> Any:
        posts, authors = self._truth.posts, set(request.author_ids)
        below = request.before_post_id or 2**63
        found = sorted((post for post in posts if post < below and posts[post] in authors), reverse=True)
        found = found[: request.limit]
        await self._truth.called(context, "ListRecentByAuthors")
        return post_pb2.ListRecentByAuthorsResponse(
            post_ids=found,
            author_ids=[posts[post] for post in found],
            complete_to_post_id=found[-1] if len(found) == request.limit else 0,
        )

    async def BatchGetTraits(self, request: post_pb2.BatchGetTraitsRequest, context: Any) -> Any:
        truth = self._truth
        await truth.called(context, "BatchGetTraits")
        standing = [post for post in request.post_ids if post in truth.posts]
        return post_pb2.BatchGetTraitsResponse(
            posts=[truth.traits.get(post, post_pb2.PostTraits(post_id=post)) for post in standing]
        )


class _Hydrate(hydrate_pb2_grpc.HydrateServiceServicer):
    def __init__(self, truth: Neighbours) -> None:
        self._truth = truth

    async def HydratePosts(self, request: hydrate_pb2.HydratePostsRequest, context: Any) -> Any:
        await self._truth.called(context, "HydratePosts")
        self._truth.hydrated.append(request)
        return hydrate_pb2.HydratePostsResponse(hydrations=map(self._hydration, request.post_ids))

    def _hydration(self, post_id: int) -> hydrate_pb2.Hydration:
        if post_id not in self._truth.posts:
            return hydrate_pb2.Hydration(post_id=post_id, withheld=hydrate_pb2.WITHHELD_REASON_NOT_FOUND)
        author_id = self._truth.posts[post_id]
        if author_id in self._truth.withheld:
            return hydrate_pb2.Hydration(post_id=post_id, withheld=self._truth.withheld[author_id])
        post = post_pb2.Post(id=post_id, author_id=author_id)
        return hydrate_pb2.Hydration(post_id=post_id, post=hydrate_pb2.HydratedPost(post=post))


class _Fanout(fanout_pb2_grpc.FanoutServiceServicer):
    def __init__(self, truth: Neighbours) -> None:
        self._truth = truth

    async def Reconcile(self, request: fanout_pb2.ReconcileRequest, context: Any) -> Any:
        await self._truth.called(context, "Reconcile")
        assert request.author_id == 0, "timelines are rebuilt as a whole"
        self._truth.rebuilds.append(request.viewer_id)
        return fanout_pb2.ReconcileResponse()


@asynccontextmanager
async def serving(truth: Neighbours) -> AsyncGenerator[str]:
    """Serve all of it; the address."""
    server = grpc.aio.server()
    # What they leave out of their contracts answers UNIMPLEMENTED.
    graph = _Graph(truth)  # pyright: ignore[reportAbstractUsage]
    post = _Post(truth)  # pyright: ignore[reportAbstractUsage]
    fanout = _Fanout(truth)  # pyright: ignore[reportAbstractUsage]
    graph_pb2_grpc.add_GraphServiceServicer_to_server(graph, server)
    post_pb2_grpc.add_PostServiceServicer_to_server(post, server)
    hydrate_pb2_grpc.add_HydrateServiceServicer_to_server(_Hydrate(truth), server)
    fanout_pb2_grpc.add_FanoutServiceServicer_to_server(fanout, server)
    health_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
