"""What the routes of engagement, favourites and the chosen view ask the services for, and what they make of the answers."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from feed.graph.v1 import graph_pb2
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2
from feedkit.errors import FailedPrecondition, post_not_found, user_not_found
from gateway.config import AuthMode, GatewaySettings
from gateway.routes.health import Health
from gateway.services import Services
from google.protobuf.message import Message

from gateway import app

LIKE, REPOST = post_pb2.ENGAGEMENT_LIKE, post_pb2.ENGAGEMENT_REPOST
GONE, STRANGER, HIDDEN = 99, 98, 97


@dataclass
class Neighbours:
    """A `post`, a `graph` and a `timeline` that note what they are asked."""

    asked: list[Message] = field(default_factory=list[Message])

    async def Engage(self, request: post_pb2.EngageRequest) -> post_pb2.EngageResponse:
        self.asked.append(request)
        if request.post_id == GONE:
            raise post_not_found(GONE)
        return post_pb2.EngageResponse(counts=post_pb2.EngagementCounts(likes=3, reposts=2, replies=1), changed=True)

    async def Disengage(self, request: post_pb2.DisengageRequest) -> post_pb2.DisengageResponse:
        self.asked.append(request)
        return post_pb2.DisengageResponse(counts=None if request.post_id == HIDDEN else post_pb2.EngagementCounts())

    async def GiveFeedback(self, request: post_pb2.GiveFeedbackRequest) -> post_pb2.GiveFeedbackResponse:
        self.asked.append(request)
        return post_pb2.GiveFeedbackResponse()

    async def RecordImpressions(self, request: post_pb2.RecordImpressionsRequest) -> post_pb2.RecordImpressionsResponse:
        self.asked.append(request)
        return post_pb2.RecordImpressionsResponse(recorded=len(request.impressions) - 1)

    async def Favour(self, request: graph_pb2.FavourRequest) -> graph_pb2.FavourResponse:
        self.asked.append(request)
        if request.favourite_id == STRANGER:
            raise FailedPrecondition("NOT_FOLLOWING", "one follows 98 not", user_id=STRANGER)
        return graph_pb2.FavourResponse()

    async def Unfavour(self, request: graph_pb2.UnfavourRequest) -> graph_pb2.UnfavourResponse:
        self.asked.append(request)
        return graph_pb2.UnfavourResponse()

    async def ListFavourites(self, request: graph_pb2.ListFavouritesRequest) -> graph_pb2.ListFavouritesResponse:
        self.asked.append(request)
        if request.user_id != 7:
            raise user_not_found(request.user_id, "user_id")
        return graph_pb2.ListFavouritesResponse(users=[graph_pb2.User(id=8, name="Bob")], next_page_token="on")  # noqa: S106 (no password)

    async def ChooseHomeView(self, request: graph_pb2.ChooseHomeViewRequest) -> graph_pb2.ChooseHomeViewResponse:
        self.asked.append(request)
        if request.user_id != 7:
            raise user_not_found(request.user_id, "user_id")
        return graph_pb2.ChooseHomeViewResponse()

    async def GetHomeView(self, request: graph_pb2.GetHomeViewRequest) -> graph_pb2.GetHomeViewResponse:
        if request.user_id != 7:
            raise user_not_found(request.user_id, "user_id")
        return graph_pb2.GetHomeViewResponse(view=graph_pb2.HOME_VIEW_RANKED)

    async def GetHomeTimeline(
        self, request: timeline_pb2.GetHomeTimelineRequest
    ) -> timeline_pb2.GetHomeTimelineResponse:
        self.asked.append(request)
        return timeline_pb2.GetHomeTimelineResponse(view=timeline_pb2.VIEW_RANKED)


@pytest.fixture
def neighbours() -> Neighbours:
    return Neighbours()


@pytest.fixture
async def client(neighbours: Neighbours) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a gateway with these neighbours, acting as the user."""
    stub = cast("Any", neighbours)
    gateway = app.create(Services(stub, stub, stub, stub), Health(), GatewaySettings(auth_mode=AuthMode.DEV))
    transport, identity = httpx.ASGITransport(gateway), {"X-User-Id": "7"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=identity) as client:
        yield client


# --- engagement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "engagement"), [("like", LIKE), ("repost", REPOST)])
async def test_a_mark_is_set_and_taken_back_and_answered_with_the_counts(
    *,
    neighbours: Neighbours,
    client: httpx.AsyncClient,
    path: str,
    engagement: post_pb2.Engagement.ValueType,
) -> None:
    marked = await client.put(f"/api/posts/5/{path}")
    unmarked = await client.delete(f"/api/posts/5/{path}")
    assert (marked.status_code, marked.json()) == (200, {"counts": {"likes": 3, "reposts": 2, "replies": 1}})
    assert (unmarked.status_code, unmarked.json()) == (200, {"counts": {"likes": 0, "reposts": 0, "replies": 0}})
    assert neighbours.asked == [
        post_pb2.EngageRequest(actor_id=7, post_id=5, engagement=engagement),
        post_pb2.DisengageRequest(actor_id=7, post_id=5, engagement=engagement),
    ]


async def test_taking_back_from_a_post_that_is_shown_no_more_tells_no_counts(client: httpx.AsyncClient) -> None:
    answer = await client.delete(f"/api/posts/{HIDDEN}/like")
    assert (answer.status_code, answer.json()) == (200, {"counts": None})


async def test_what_is_not_there_cannot_be_liked(client: httpx.AsyncClient) -> None:
    answer = await client.put(f"/api/posts/{GONE}/like")
    assert (answer.status_code, answer.json()["reason"]) == (404, "POST_NOT_FOUND")


@pytest.mark.parametrize(
    ("kind", "feedback"),
    [("less_like_this", post_pb2.FEEDBACK_LESS_LIKE_THIS), ("hide", post_pb2.FEEDBACK_HIDE)],
)
async def test_feedback_is_passed_on(
    neighbours: Neighbours, client: httpx.AsyncClient, kind: str, feedback: post_pb2.Feedback.ValueType
) -> None:
    answer = await client.post("/api/posts/5/feedback", json={"kind": kind})
    assert (answer.status_code, answer.content) == (204, b"")
    assert neighbours.asked == [post_pb2.GiveFeedbackRequest(actor_id=7, post_id=5, feedback=feedback)]


async def test_impressions_are_passed_on_and_the_new_ones_counted(
    neighbours: Neighbours, client: httpx.AsyncClient
) -> None:
    seen = [
        {"postId": "5", "position": 0, "dwellMs": 1200, "view": "ranked"},
        {"postId": 6, "position": 1, "dwellMs": 0, "view": "latest"},
    ]
    answer = await client.post("/api/feed/impressions", json={"impressions": seen})
    assert (answer.status_code, answer.json()) == (202, {"recorded": 1})
    assert neighbours.asked == [
        post_pb2.RecordImpressionsRequest(
            viewer_id=7,
            impressions=[
                post_pb2.Impression(post_id=5, position=0, dwell_ms=1200, seen_in=post_pb2.SEEN_IN_RANKED),
                post_pb2.Impression(post_id=6, position=1, dwell_ms=0, seen_in=post_pb2.SEEN_IN_LATEST),
            ],
        )
    ]


# --- favourites --------------------------------------------------------------------------------------------------------


async def test_favourites_are_set_and_taken_back(neighbours: Neighbours, client: httpx.AsyncClient) -> None:
    for method in ("PUT", "DELETE"):
        answer = await client.request(method, "/api/favourites/8")
        assert (answer.status_code, answer.content) == (204, b"")
    assert neighbours.asked == [
        graph_pb2.FavourRequest(actor_id=7, favourite_id=8),
        graph_pb2.UnfavourRequest(actor_id=7, favourite_id=8),
    ]


async def test_only_somebody_whom_one_follows_can_be_a_favourite(client: httpx.AsyncClient) -> None:
    answer = await client.put(f"/api/favourites/{STRANGER}")
    assert (answer.status_code, answer.json()["reason"]) == (409, "NOT_FOLLOWING")


async def test_favourites_are_a_page_of_users(neighbours: Neighbours, client: httpx.AsyncClient) -> None:
    page = (await client.get("/api/favourites?limit=1&cursor=from")).json()
    assert ([user["name"] for user in page["items"]], page["nextCursor"]) == (["Bob"], "on")
    assert neighbours.asked == [graph_pb2.ListFavouritesRequest(user_id=7, page_size=1, page_token="from")]  # noqa: S106 (no password)


# --- views -------------------------------------------------------------------------------------------------------------


async def test_a_chosen_view_is_told_and_chosen(neighbours: Neighbours, client: httpx.AsyncClient) -> None:
    told, chosen = await client.get("/api/feed/view"), await client.put("/api/feed/view", json={"view": "latest"})
    assert (told.status_code, told.json()) == (200, {"view": "ranked"})
    assert (chosen.status_code, chosen.json()) == (200, {"view": "latest"})
    assert neighbours.asked == [graph_pb2.ChooseHomeViewRequest(user_id=7, view=graph_pb2.HOME_VIEW_LATEST)]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/favourites"), ("GET", "/api/feed/view"), ("PUT", "/api/feed/view")]
)
async def test_whoever_is_gone_names_nobody(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path, headers={"X-User-Id": "8"}, json={"view": "latest"})
    assert (answer.status_code, answer.json()["reason"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    ("query", "view", "explain"),
    [
        ("", timeline_pb2.VIEW_UNSPECIFIED, False),
        ("view=latest", timeline_pb2.VIEW_LATEST, False),
        ("view=ranked&explain=true", timeline_pb2.VIEW_RANKED, True),
        ("view=ranked&explain=false", timeline_pb2.VIEW_RANKED, False),
        ("explain=true", timeline_pb2.VIEW_UNSPECIFIED, True),
    ],
)
async def test_a_feed_is_asked_for_in_the_view_that_is_named_or_in_none(
    *,
    neighbours: Neighbours,
    client: httpx.AsyncClient,
    query: str,
    view: timeline_pb2.View.ValueType,
    explain: bool,
) -> None:
    """Where none is named, it is that of the cursor, or the chosen one."""
    for cursor in ("", "1704067200000:1", "r:0123456789abcdef:20", "r:below:1704067200000:1"):
        neighbours.asked.clear()
        assert (await client.get(f"/api/feed?{query}&cursor={cursor}")).is_success
        assert neighbours.asked == [
            timeline_pb2.GetHomeTimelineRequest(
                viewer_id=7, page_size=20, page_token=cursor, view=view, explain=explain
            )
        ]
