"""What `graph` knows of viewers, and is told of them."""

from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel

from timeline_service.viewer import Viewer

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub


class GraphClient:
    """Calls the service `graph`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def viewer(self, viewer_id: int) -> Viewer:
        """The viewer and whom they follow. Raises NotFound, USER_NOT_FOUND, for nobody's id."""
        request = graph_pb2.GetViewerContextRequest(viewer_id=viewer_id)
        response = await self._stub.GetViewerContext(request)
        return Viewer(viewer_id, frozenset((viewer_id, *response.followee_ids)))

    async def record_activity(self, user_id: int) -> None:
        """Tell that a user is active now."""
        await self._stub.RecordActivity(graph_pb2.RecordActivityRequest(user_id=user_id))
