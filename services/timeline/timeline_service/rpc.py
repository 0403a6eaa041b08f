"""The contract `feed.timeline.v1` to the domain and back."""

from feed.hydrate.v1 import hydrate_pb2
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit.cursor import Position, clamp_page_size

from timeline_service.activity import Activity
from timeline_service.homes import Homes
from timeline_service.mix import Mix
from timeline_service.source import TOP


class TimelineServicer(timeline_pb2_grpc.TimelineServiceServicer):
    """Serves `TimelineService`."""

    def __init__(self, homes: Homes, mix: Mix[hydrate_pb2.HydratedPost], activity: Activity) -> None:
        self._homes = homes
        self._mix = mix
        self._activity = activity

    async def GetHomeTimeline(
        self, request: timeline_pb2.GetHomeTimelineRequest, context: object
    ) -> timeline_pb2.GetHomeTimelineResponse:
        """See the contract."""
        token = Position.parse(request.page_token, "page_token")
        position = TOP if token is None else token.id_bound
        size = clamp_page_size(request.page_size)
        home = await self._homes.open(request.viewer_id, position, size)
        self._activity.seen(home.viewer.id)
        page = await self._mix.page(home.viewer, home.sources, position, size)
        return timeline_pb2.GetHomeTimelineResponse(
            posts=page.posts,
            next_page_token="" if page.next_position is None else str(Position.of(page.next_position)),
            view=timeline_pb2.VIEW_LATEST,
        )
