"""The truth as `graph` and `post` tell it, kept in memory, behind their real contracts and a real server.

A test changes it directly, lets it fail, and reads what it was asked.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import grpc
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

PAGE = 7
"""Followers in one page of a stream: few, so that there are several."""


class Truth(
    graph_pb2_grpc.GraphServiceServicer, post_pb2_grpc.PostServiceServicer, outbox_pb2_grpc.OutboxServiceServicer
):
    """What a `graph` and a `post` know."""

    def __init__(self) -> None:
        self.follows: dict[int, set[int]] = {}
        """Followees by viewer; whoever is a key exists."""
        self.active: set[int] = set()
        self.posts: dict[int, int] = {}
        """Authors by post."""
        self.pulled: set[int] = set()
        self.outbox_rows = 0
        self.asked: Counter[str] = Counter()
        self.failing: dict[str, grpc.StatusCode] = {}
        """Methods that fail, and how."""

    def begin(self, method: str, context: grpc.ServicerContext) -> None:
        """Count a call, and let it fail where it is to."""
        self.asked[method] += 1
        if (code := self.failing.get(method)) is not None:
            context.abort(code, "the test wants it so")

    def followers(self, user_id: int) -> list[int]:
        """Who follows somebody."""
        return [viewer for viewer, followees in sorted(self.follows.items()) if user_id in followees]

    def home(self, viewer_id: int) -> list[int]:
        """All posts of those whom a viewer follows, newest first."""
        followees = self.follows.get(viewer_id, set())
        return sorted((post for post, author in self.posts.items() if author in followees), reverse=True)

    # --- graph --------------------------------------------------------------------------------------------------------

    def ClassifyAuthors(self, request: Any, context: Any) -> graph_pb2.ClassifyAuthorsResponse:
        self.begin("ClassifyAuthors", context)
        authors = list(dict.fromkeys(request.author_ids))
        counts = [len(self.followers(author)) for author in authors]
        self.pulled |= {a for a, count in zip(authors, counts, strict=True) if count >= request.celebrity_threshold}
        pulled = [author in self.pulled for author in authors]
        return graph_pb2.ClassifyAuthorsResponse(author_ids=authors, pulled=pulled, follower_counts=counts)

    def StreamActiveFollowers(self, request: Any, context: Any) -> Iterator[graph_pb2.StreamActiveFollowersResponse]:
        self.begin("StreamActiveFollowers", context)
        followers = [viewer for viewer in self.followers(request.user_id) if viewer in self.active]
        for start in range(0, len(followers), PAGE):
            yield graph_pb2.StreamActiveFollowersResponse(follower_ids=followers[start : start + PAGE])

    def BatchGetRelationships(self, request: Any, context: Any) -> graph_pb2.BatchGetRelationshipsResponse:
        self.begin("BatchGetRelationships", context)
        followees = self.follows.get(request.viewer_id)
        if followees is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "nobody")
        assert followees is not None
        relationships = [graph_pb2.Relationship(user_id=user, following=user in followees) for user in request.user_ids]
        return graph_pb2.BatchGetRelationshipsResponse(relationships=relationships)

    def RecordActivity(self, request: Any, context: Any) -> graph_pb2.RecordActivityResponse:
        self.begin("RecordActivity", context)
        if request.user_id not in self.follows:
            context.abort(grpc.StatusCode.NOT_FOUND, "nobody")
        self.active.add(request.user_id)
        return graph_pb2.RecordActivityResponse()

    def GetViewerContext(self, request: Any, context: Any) -> graph_pb2.GetViewerContextResponse:
        self.begin("GetViewerContext", context)
        if request.viewer_id not in self.follows:
            context.abort(grpc.StatusCode.NOT_FOUND, "nobody")
        return graph_pb2.GetViewerContextResponse(followee_ids=sorted(self.follows[request.viewer_id]))

    # --- post ---------------------------------------------------------------------------------------------------------

    def ListRecentByAuthors(self, request: Any, context: Any) -> post_pb2.ListRecentByAuthorsResponse:
        self.begin("ListRecentByAuthors", context)
        authors = set(request.author_ids)
        posts = sorted((post for post, author in self.posts.items() if author in authors), reverse=True)
        shown = posts[: request.limit]
        return post_pb2.ListRecentByAuthorsResponse(
            post_ids=shown,
            author_ids=[self.posts[post] for post in shown],
            complete_to_post_id=shown[-1] if len(posts) > request.limit else 0,
        )

    # --- both ---------------------------------------------------------------------------------------------------------

    def GetBacklog(self, request: Any, context: Any) -> outbox_pb2.GetBacklogResponse:
        self.begin("GetBacklog", context)
        return outbox_pb2.GetBacklogResponse(rows=self.outbox_rows)


@contextmanager
def served(truth: Truth) -> Generator[str]:
    """Serve it; gives the address."""
    server = grpc.server(ThreadPoolExecutor(8))
    graph_pb2_grpc.add_GraphServiceServicer_to_server(truth, server)
    post_pb2_grpc.add_PostServiceServicer_to_server(truth, server)
    outbox_pb2_grpc.add_OutboxServiceServicer_to_server(truth, server)
    healthy = cast("Any", health).HealthServicer()
    healthy.set("", health_pb2.HealthCheckResponse.SERVING)
    cast("Any", health_pb2_grpc).add_HealthServicer_to_server(healthy, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)
