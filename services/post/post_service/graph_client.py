"""What this service asks the service graph."""

from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub

SERVICE = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
SECONDS = 2.0
"""The longest that the author of a new post is waited for."""


class GraphClient:
    """Questions to graph. They raise FeedError where it gives no answer."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def exists(self, user_id: int) -> bool:
        """Whether there is such a user."""
        request = graph_pb2.BatchGetUsersRequest(user_ids=[user_id], view=graph_pb2.USER_VIEW_BASIC)
        response = await self._stub.BatchGetUsers(request, timeout=SECONDS)
        return len(response.users) > 0
