"""Home feeds: their pages, the view in which they are shown, and what was seen of them."""

from typing import Annotated

import msgspec
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit import validation
from starlette.requests import Request

from gateway import bodies, feed_page, identity, parameters
from gateway.answers import Answer, ok
from gateway.problems import about_oneself
from gateway.resource import Paths
from gateway.services import Services

_EXPLAIN = {"true": True, "false": False}
_CHOSEN = {"latest": graph_pb2.HOME_VIEW_LATEST, "ranked": graph_pb2.HOME_VIEW_RANKED}
_NAMES_OF_CHOSEN = {view: name for name, view in _CHOSEN.items()}
_SEEN_IN = {"latest": post_pb2.SEEN_IN_LATEST, "ranked": post_pb2.SEEN_IN_RANKED}


class ChosenView(msgspec.Struct):
    """The view in which a feed is shown where a read does not say: the body of `PUT /api/feed/view`, and its answers."""

    view: str


class Impression(msgspec.Struct, rename="camel"):
    """A post that was shown."""

    post_id: bodies.Id
    position: bodies.Int32
    dwell_ms: bodies.Int32
    view: str


class Impressions(msgspec.Struct):
    """The body of `POST /api/feed/impressions`."""

    impressions: Annotated[list[Impression], msgspec.Meta(min_length=1, max_length=100)]


class Recorded(msgspec.Struct):
    """How many impressions were new."""

    recorded: int


_CHOSEN_VIEW = msgspec.json.Decoder(ChosenView)
_IMPRESSIONS = msgspec.json.Decoder(Impressions)


class Feed:
    """`/api/feed` and what lies below it, of the acting user."""

    def __init__(self, services: Services) -> None:
        self._timeline: timeline_pb2_grpc.TimelineServiceAsyncStub = services.timeline
        self._graph: graph_pb2_grpc.GraphServiceAsyncStub = services.graph
        self._post: post_pb2_grpc.PostServiceAsyncStub = services.post

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/feed": {"GET": self.page},
            "/api/feed/view": {"GET": self.chosen_view, "PUT": self.choose_view},
            "/api/feed/impressions": {"POST": self.record},
        }

    async def page(self, request: Request) -> Answer:
        """A page in the view that is asked for, that of the cursor, or the chosen one."""
        page = await self._timeline.GetHomeTimeline(
            timeline_pb2.GetHomeTimelineRequest(
                viewer_id=identity.acting_user(request),
                page_size=parameters.limit(request),
                page_token=parameters.feed_cursor(request),
                view=parameters.choice(request, "view", feed_page.VIEWS, timeline_pb2.VIEW_UNSPECIFIED),
                explain=parameters.choice(request, "explain", _EXPLAIN, default=False),
            )
        )
        return ok(feed_page.of(page))

    async def chosen_view(self, request: Request) -> Answer:
        """The view that was chosen, or that everybody has who never chose."""
        user_id = identity.acting_user(request)
        with about_oneself():
            answer = await self._graph.GetHomeView(graph_pb2.GetHomeViewRequest(user_id=user_id))
        return ok(ChosenView(_NAMES_OF_CHOSEN[answer.view]))

    async def choose_view(self, request: Request) -> Answer:
        """Choose a view; again, too."""
        user_id = identity.acting_user(request)
        choice = await bodies.decode(request, _CHOSEN_VIEW)
        view = bodies.choice_of(choice.view, _CHOSEN, "view")
        with about_oneself():
            await self._graph.ChooseHomeView(graph_pb2.ChooseHomeViewRequest(user_id=user_id, view=view))
        return ok(choice)

    async def record(self, request: Request) -> Answer:
        """Record what was seen; again, too."""
        viewer_id = identity.acting_user(request)
        seen = (await bodies.decode(request, _IMPRESSIONS)).impressions
        message = post_pb2.RecordImpressionsRequest(
            viewer_id=viewer_id, impressions=[_impression(place, each) for place, each in enumerate(seen)]
        )
        validation.check(message)
        answer = await self._post.RecordImpressions(message)
        return ok(Recorded(answer.recorded), 202)


def _impression(place: int, impression: Impression) -> post_pb2.Impression:
    return post_pb2.Impression(
        post_id=bodies.id_of(impression.post_id, f"impressions[{place}].postId"),
        position=impression.position,
        dwell_ms=impression.dwell_ms,
        seen_in=bodies.choice_of(impression.view, _SEEN_IN, f"impressions[{place}].view"),
    )
