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
from feedkit.errors import FailedPrecondition
from feedkit.status import to_status
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
        self.mutes: dict[int, set[int]] = {}
        self.deleted: set[int] = set()
        """The users whose accounts are deleted."""
        self.active: set[int] = set()
        self.posts: dict[int, int] = {}
        """Authors by post."""
        self.pulled: set[int] = set()
        self.decided: Counter[int] = Counter()
        """How often it has been decided of an author that they are pulled."""
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

    def read(self, viewer_id: int) -> set[int]:
        """Whom a viewer follows and does not mute."""
        return self.follows.get(viewer_id, set()) - self.mutes.get(viewer_id, set())

    def home(self, viewer_id: int) -> list[int]:
        """All posts of those whom a viewer follows and does not mute, newest first."""
        authors = self.read(viewer_id)
        return sorted((post for post, author in self.posts.items() if author in authors), reverse=True)

    def exists(self, user_id: int) -> bool:
        """Whether there is such a user, whose account is not deleted."""
        return user_id in self.follows and user_id not in self.deleted

    # --- graph --------------------------------------------------------------------------------------------------------

    def ClassifyAuthors(self, request: Any, context: Any) -> graph_pb2.ClassifyAuthorsResponse:
        self.begin("ClassifyAuthors", context)
        authors = list(dict.fromkeys(request.author_ids))
        counts = [len(self.followers(author)) for author in authors]
        self.pulled |= {a for a, count in zip(authors, counts, strict=True) if count >= request.celebrity_threshold}
        pulled = [author in self.pulled for author in authors]
        self.decided.update(self.pulled & set(authors))
        return graph_pb2.ClassifyAuthorsResponse(
            author_ids=authors,
            pulled=pulled,
            follower_counts=counts,
            deleted_author_ids=[author for author in authors if author in self.deleted],
        )

    def ListShrunkAuthors(self, request: Any, context: Any) -> graph_pb2.ListShrunkAuthorsResponse:
        self.begin("ListShrunkAuthors", context)
        counts = sorted((len(self.followers(author)), author) for author in self.pulled)
        return graph_pb2.ListShrunkAuthorsResponse(
            authors=[
                graph_pb2.ShrunkAuthor(author_id=author, follower_count=count, sequence=self.decided[author])
                for count, author in counts[: request.limit]
                if count < request.follower_count
            ]
        )

    def LeavePulledAuthors(self, request: Any, context: Any) -> graph_pb2.LeavePulledAuthorsResponse:
        self.begin("LeavePulledAuthors", context)
        left = request.author_id in self.pulled and self.decided[request.author_id] == request.sequence
        if left:
            self.pulled.discard(request.author_id)
        return graph_pb2.LeavePulledAuthorsResponse(left=left)

    def StreamActiveFollowers(self, request: Any, context: Any) -> Iterator[graph_pb2.StreamActiveFollowersResponse]:
        self.begin("StreamActiveFollowers", context)
        followers = [viewer for viewer in self.followers(request.user_id) if viewer in self.active]
        for start in range(0, len(followers), PAGE):
            yield graph_pb2.StreamActiveFollowersResponse(follower_ids=followers[start : start + PAGE])

    def BatchGetRelationships(self, request: Any, context: Any) -> graph_pb2.BatchGetRelationshipsResponse:
        self.begin("BatchGetRelationships", context)
        self._require(request.viewer_id, context)
        followees, muted = self.follows[request.viewer_id], self.mutes.get(request.viewer_id, set())
        relationships = [
            graph_pb2.Relationship(user_id=user, following=user in followees, muting=user in muted)
            for user in request.user_ids
        ]
        return graph_pb2.BatchGetRelationshipsResponse(relationships=relationships)

    def RecordActivity(self, request: Any, context: Any) -> graph_pb2.RecordActivityResponse:
        self.begin("RecordActivity", context)
        self._require(request.user_id, context)
        self.active.add(request.user_id)
        return graph_pb2.RecordActivityResponse()

    def GetViewerContext(self, request: Any, context: Any) -> graph_pb2.GetViewerContextResponse:
        self.begin("GetViewerContext", context)
        self._require(request.viewer_id, context)
        return graph_pb2.GetViewerContextResponse(followee_ids=sorted(self.read(request.viewer_id)))

    def EraseUser(self, request: Any, context: Any) -> graph_pb2.EraseUserResponse:
        """One edge at a time, and without the events that `graph` has of each."""
        self.begin("EraseUser", context)
        self._require_deleted(request.user_id, context)
        self.pulled.discard(request.user_id)
        for viewer, followees in self.follows.items():
            for followee in followees:
                if request.user_id in {viewer, followee}:
                    followees.discard(followee)
                    return graph_pb2.EraseUserResponse(erased_edges=1)
        return graph_pb2.EraseUserResponse(done=True)

    def _require(self, user_id: int, context: Any) -> None:
        if not self.exists(user_id):
            context.abort(grpc.StatusCode.NOT_FOUND, "nobody")

    def _require_deleted(self, user_id: int, context: Any) -> None:
        if user_id not in self.deleted:
            context.abort_with_status(to_status(FailedPrecondition("USER_NOT_DELETED", "not deleted")))

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

    def EraseAuthor(self, request: Any, context: Any) -> post_pb2.EraseAuthorResponse:
        """One post at a time."""
        self.begin("EraseAuthor", context)
        self._require_deleted(request.author_id, context)
        posts = [post for post, author in self.posts.items() if author == request.author_id]
        for post in posts[:1]:
            del self.posts[post]
        return post_pb2.EraseAuthorResponse(erased_posts=len(posts[:1]), done=len(posts) < 2)

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
