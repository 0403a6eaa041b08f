"""What this service asks the service graph."""

from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel
from feedkit.errors import NotFound

from post_service.authors import Standing

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub

SERVICE = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
SECONDS = 2.0
"""The longest that an answer is waited for."""


class GraphClient:
    """Questions to graph. They raise FeedError where it gives no answer."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def standing(self, user_id: int) -> Standing | None:
        """How an account stands; None if there is none, or none any more."""
        request = graph_pb2.BatchGetUsersRequest(user_ids=[user_id], view=graph_pb2.USER_VIEW_BASIC)
        response = await self._stub.BatchGetUsers(request, timeout=SECONDS)
        if not response.users:
            return None
        suspended = response.users[0].standing == graph_pb2.USER_STANDING_SUSPENDED
        return Standing.SUSPENDED if suspended else Standing.ACTIVE

    async def apart(self, user_id: int, other_id: int) -> bool | None:
        """Whether one of two users blocks the other; None if the first is there no more."""
        request = graph_pb2.BatchGetRelationshipsRequest(viewer_id=user_id, user_ids=[other_id])
        try:
            response = await self._stub.BatchGetRelationships(request, timeout=SECONDS)
        except NotFound:
            return None
        return any(other.blocking or other.blocked_by for other in response.relationships)
