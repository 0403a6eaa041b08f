"""The contract `feed.timeline.v1` to the domain and back."""

from collections.abc import Callable

from feed.hydrate.v1 import hydrate_pb2
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit.cursor import clamp_page_size
from feedrank.signals import PREDICTED

from timeline_service.explanations import Explanation
from timeline_service.origins import Origin
from timeline_service.pages import Notice, View
from timeline_service.ranker import Recipe
from timeline_service.views import Views

_VIEWS = {timeline_pb2.VIEW_LATEST: View.LATEST, timeline_pb2.VIEW_RANKED: View.RANKED}
_VIEWS_SENT = {view: sent for sent, view in _VIEWS.items()}
_NOTICES_SENT = {
    None: timeline_pb2.NOTICE_UNSPECIFIED,
    Notice.ORDER_EXPIRED: timeline_pb2.NOTICE_ORDER_EXPIRED,
    Notice.RANKING_UNAVAILABLE: timeline_pb2.NOTICE_RANKING_UNAVAILABLE,
}

_SOURCES = {
    Origin.PUSHED: timeline_pb2.ENTRY_SOURCE_PUSHED,
    Origin.PULLED: timeline_pb2.ENTRY_SOURCE_PULLED,
    Origin.OWN: timeline_pb2.ENTRY_SOURCE_OWN,
}


class TimelineServicer(timeline_pb2_grpc.TimelineServiceServicer):
    """Serves `TimelineService`."""

    def __init__(
        self,
        views: Views[hydrate_pb2.HydratedPost],
        recipe: Recipe,
        *,
        candidates: int,
        note_activity: Callable[[int], None],
    ) -> None:
        """`candidates` is how many posts are ranked; `note_activity` is told of viewers who have read."""
        self._views = views
        self._recipe = recipe
        self._candidates = candidates
        self._note_activity = note_activity

    async def GetHomeTimeline(
        self, request: timeline_pb2.GetHomeTimelineRequest, context: object
    ) -> timeline_pb2.GetHomeTimelineResponse:
        """See the contract."""
        page = await self._views.page(
            request.viewer_id,
            _VIEWS.get(request.view),
            request.page_token,
            clamp_page_size(request.page_size),
            explain=request.explain,
        )
        self._note_activity(request.viewer_id)
        return timeline_pb2.GetHomeTimelineResponse(
            posts=page.posts,
            next_page_token=page.next_token,
            view=_VIEWS_SENT[page.view],
            notice=_NOTICES_SENT[page.notice],
            explanations=map(_explanation, page.explanations),
            insertions=[timeline_pb2.Insertion(**insertion._asdict()) for insertion in page.insertions],
        )

    async def GetRanking(
        self, request: timeline_pb2.GetRankingRequest, context: object
    ) -> timeline_pb2.GetRankingResponse:
        """See the contract."""
        recipe = self._recipe
        return timeline_pb2.GetRankingResponse(
            model=recipe.model,
            trained_at_ms=recipe.trained_at_ms,
            weights=dict(zip(PREDICTED, recipe.weights, strict=True)),
            rules=recipe.rules,
            candidates=self._candidates,
        )


def _explanation(explanation: Explanation) -> timeline_pb2.Explanation:
    origin, place, scored_place, moves, (factors, predictions, score) = explanation
    return timeline_pb2.Explanation(
        source=_SOURCES[origin],
        factors=[timeline_pb2.Factor(**factor._asdict()) for factor in factors],
        predictions=[timeline_pb2.Prediction(**prediction._asdict()) for prediction in predictions],
        score=score,
        scored_place=scored_place,
        place=place,
        moves=[timeline_pb2.Move(**move._asdict()) for move in moves],
    )
