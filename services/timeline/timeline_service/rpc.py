"""The contract `feed.timeline.v1` to the domain and back."""

from feed.hydrate.v1 import hydrate_pb2
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit.cursor import Position, clamp_page_size

from timeline_service.activity import Activity
from timeline_service.graph_client import GraphClient
from timeline_service.mix import Mix
from timeline_service.source import TOP


class TimelineServicer(timeline_pb2_grpc.TimelineServiceServicer):
    """Serves `TimelineService`."""

    def __init__(self, graph: GraphClient, mix: Mix[hydrate_pb2.HydratedPost], activity: Activity) -> None:
        self._graph = graph
        self._mix = mix
        self._activity = activity

    async def GetHomeTimeline(
        self, request: timeline_pb2.GetHomeTimelineRequest, context: object
    ) -> timeline_pb2.GetHomeTimelineResponse:
        """See the contract."""
        position = Position.parse(request.page_token, "page_token")
        viewer = await self._graph.viewer(request.viewer_id)
        self._activity.seen(viewer.id)
        page = await self._mix.page(
            viewer, TOP if position is None else position.id_bound, clamp_page_size(request.page_size)
        )
        return timeline_pb2.GetHomeTimelineResponse(
            posts=page.posts,
            next_page_token="" if page.next_position is None else str(Position.of(page.next_position)),
            view=timeline_pb2.VIEW_LATEST,
        )
