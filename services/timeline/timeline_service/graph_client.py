"""What `graph` knows of viewers, and is told of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel

from timeline_service.pulled_index import Changes

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub


class GraphClient:
    """Calls the service `graph`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def followees(self, viewer_id: int) -> Sequence[int]:
        """See `contexts.Graph`."""
        request = graph_pb2.GetViewerContextRequest(viewer_id=viewer_id)
        return (await self._stub.GetViewerContext(request)).followee_ids

    async def changes_of_pulled_index(self, since_version: int) -> Changes:
        """What has changed in the index of pulled authors since a version of it."""
        request = graph_pb2.ListPulledAuthorsRequest(since_version=since_version)
        response = await self._stub.ListPulledAuthors(request)
        return Changes(response.version, response.entered_author_ids, response.left_author_ids)

    async def record_activity(self, user_id: int) -> None:
        """Tell that a user is active now."""
        await self._stub.RecordActivity(graph_pb2.RecordActivityRequest(user_id=user_id))
