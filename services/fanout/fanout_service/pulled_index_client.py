"""The index of pulled authors, as far as authors leave it, at the service `graph`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel

from fanout_service.leaving import ShrunkAuthor

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub


class PulledIndexClient:
    """Implements `leaving.Index`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def shrunk(self, follower_count: int, limit: int) -> Sequence[ShrunkAuthor]:
        """See `leaving.Index`."""
        request = graph_pb2.ListShrunkAuthorsRequest(follower_count=follower_count, limit=limit)
        answer = await self._stub.ListShrunkAuthors(request)
        return [ShrunkAuthor(author.author_id, author.sequence) for author in answer.authors]

    async def leave(self, author: ShrunkAuthor) -> bool:
        """See `leaving.Index`."""
        request = graph_pb2.LeavePulledAuthorsRequest(author_id=author.author_id, sequence=author.sequence)
        return (await self._stub.LeavePulledAuthors(request)).left
