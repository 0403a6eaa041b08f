"""The truth about users, asked of the service `graph`."""

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel
from feedkit.errors import NotFound

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub

NOBODY_HAS_SO_MANY = (1 << 63) - 1
"""A threshold by which nobody enters the index."""


class GraphClient:
    """Implements what the domain asks of `graph`."""

    def __init__(self, channel: Channel, *, threshold: int, active_days: int) -> None:
        """`threshold`: the follower count from which an author is pulled; `active_days`: how long one counts as active."""
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)
        self._threshold = threshold
        self._active_days = active_days

    async def pulled(self, author_ids: Collection[int]) -> Collection[int]:
        """See `post_events.PulledAuthors`. At most 1,000 authors."""
        return await self._classified(author_ids, self._threshold)

    async def pulled_already(self, author_ids: Collection[int]) -> Collection[int]:
        """See `follow_events.PulledAuthors`. At most 1,000 authors."""
        return await self._classified(author_ids, NOBODY_HAS_SO_MANY)

    async def _classified(self, author_ids: Collection[int], threshold: int) -> Collection[int]:
        request = graph_pb2.ClassifyAuthorsRequest(author_ids=author_ids, celebrity_threshold=threshold)
        answer = await self._stub.ClassifyAuthors(request)
        return {author_id for author_id, pulled in zip(answer.author_ids, answer.pulled, strict=True) if pulled}

    async def active_followers(self, author_id: int) -> AsyncGenerator[Sequence[int]]:
        """See `delivery.ActiveFollowers`."""
        request = graph_pb2.StreamActiveFollowersRequest(user_id=author_id, active_days=self._active_days)
        async for page in self._stub.StreamActiveFollowers(request):
            yield page.follower_ids

    async def follows(self, viewer_id: int, author_id: int) -> bool:
        """See `reconcile.Edges`."""
        request = graph_pb2.BatchGetRelationshipsRequest(viewer_id=viewer_id, user_ids=[author_id])
        try:
            answer = await self._stub.BatchGetRelationships(request)
        except NotFound:
            return False
        [relationship] = answer.relationships
        return relationship.following

    async def record_activity(self, viewer_id: int) -> None:
        """See `rebuild.Viewers`."""
        await self._stub.RecordActivity(graph_pb2.RecordActivityRequest(user_id=viewer_id))

    async def followees(self, viewer_id: int) -> Sequence[int]:
        """See `rebuild.Viewers`."""
        answer = await self._stub.GetViewerContext(graph_pb2.GetViewerContextRequest(viewer_id=viewer_id))
        return answer.followee_ids
