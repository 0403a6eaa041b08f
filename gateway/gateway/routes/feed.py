"""Home feeds."""

from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from starlette.requests import Request

from gateway import identity, parameters, presentation
from gateway.answers import Answer, ok
from gateway.resource import Paths


class Feed:
    """`/api/feed`: the acting user's home feed."""

    def __init__(self, timeline: "timeline_pb2_grpc.TimelineServiceAsyncStub") -> None:
        self._timeline = timeline

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {"/api/feed": {"GET": self.page}}

    async def page(self, request: Request) -> Answer:
        """A page, newest first."""
        viewer_id = identity.acting_user(request)
        parameters.require_latest_view(request)
        page = await self._timeline.GetHomeTimeline(
            timeline_pb2.GetHomeTimelineRequest(
                viewer_id=viewer_id,
                page_size=parameters.limit(request),
                page_token=parameters.cursor(request),
                view=timeline_pb2.VIEW_LATEST,
            )
        )
        return ok(presentation.feed(page))
