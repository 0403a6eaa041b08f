"""What `graph` knows of viewers, and is told of them."""

from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit.channel import Channel

from timeline_service.pulled_index import Changes
from timeline_service.viewer import Context

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub


class GraphClient:
    """Calls the service `graph`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def context(self, viewer_id: int) -> Context:
        """See `contexts.Graph`."""
        response = await self._stub.GetViewerContext(graph_pb2.GetViewerContextRequest(viewer_id=viewer_id))
        prefers_ranked = response.home_view == graph_pb2.HOME_VIEW_RANKED
        return Context(response.followee_ids, response.favourite_ids, prefers_ranked)

    async def changes_of_pulled_index(self, since_version: int) -> Changes:
        """What has changed in the index of pulled authors since a version of it."""
        request = graph_pb2.ListPulledAuthorsRequest(since_version=since_version)
        response = await self._stub.ListPulledAuthors(request)
        return Changes(response.version, response.entered_author_ids, response.left_author_ids)

    async def record_activity(self, user_id: int) -> None:
        """Tell that a user is active now."""
        await self._stub.RecordActivity(graph_pb2.RecordActivityRequest(user_id=user_id))
