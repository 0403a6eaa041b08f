"""The truth about users, asked of the service `graph`."""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel
from feedkit.errors import NotFound

from fanout_service.authors import Standings

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub

NOBODY_HAS_SO_MANY = (1 << 63) - 1
"""A threshold by which nobody enters the index."""


class GraphClient:
    """Implements what the domain asks of `graph`."""

    def __init__(self, channel: Channel, *, threshold: Callable[[], int], active_days: int) -> None:
        """`threshold` tells from how many followers on an author is pulled now; `active_days`: how long one is active."""
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)
        self._threshold = threshold
        self._active_days = active_days

    async def classify(self, author_ids: Collection[int]) -> Standings:
        """See `authors.Authors`."""
        return await self._standings(author_ids, self._threshold())

    async def standings(self, author_ids: Collection[int]) -> Standings:
        """See `authors.Authors`."""
        return await self._standings(author_ids, NOBODY_HAS_SO_MANY)

    async def _standings(self, author_ids: Collection[int], threshold: int) -> Standings:
        request = graph_pb2.ClassifyAuthorsRequest(author_ids=author_ids, celebrity_threshold=threshold)
        answer = await self._stub.ClassifyAuthors(request)
        pulled = {author_id for author_id, is_pulled in zip(answer.author_ids, answer.pulled, strict=True) if is_pulled}
        return Standings(pulled, set(answer.deleted_author_ids))

    async def active_followers(self, author_id: int) -> AsyncGenerator[Sequence[int]]:
        """See `delivery.ActiveFollowers`."""
        request = graph_pb2.StreamActiveFollowersRequest(user_id=author_id, active_days=self._active_days)
        async for page in self._stub.StreamActiveFollowers(request):
            yield page.follower_ids

    async def belongs(self, viewer_id: int, author_id: int) -> bool:
        """See `reconcile.Edges`."""
        request = graph_pb2.BatchGetRelationshipsRequest(viewer_id=viewer_id, user_ids=[author_id])
        try:
            answer = await self._stub.BatchGetRelationships(request)
        except NotFound:
            return False
        [relationship] = answer.relationships
        return relationship.following and not relationship.muting

    async def record_activity(self, viewer_id: int) -> None:
        """See `rebuild.Viewers`."""
        await self._stub.RecordActivity(graph_pb2.RecordActivityRequest(user_id=viewer_id))

    async def followees(self, viewer_id: int) -> Sequence[int]:
        """See `rebuild.Viewers`."""
        answer = await self._stub.GetViewerContext(graph_pb2.GetViewerContextRequest(viewer_id=viewer_id))
        return answer.followee_ids

    async def erase(self, user_id: int) -> bool:
        """See `erase.Remains`."""
        return (await self._stub.EraseUser(graph_pb2.EraseUserRequest(user_id=user_id))).done
