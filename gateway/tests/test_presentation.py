"""Messages as the JSON that the public sees."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from gateway.answers import encode
from hypothesis import given
from hypothesis import strategies as st

from gateway import presentation

LARGEST = 2**63 - 1


def as_json(content: object) -> Any:
    return json.loads(encode(content))


@given(st.integers(0, 2**42))
def test_a_timestamp_is_its_millisecond(ms: int) -> None:
    text = presentation.timestamp(ms)
    assert len(text) == 24
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def test_a_post_has_every_member() -> None:
    message = post_pb2.Post(
        id=LARGEST, author_id=7, content="hi", created_at_ms=1_704_067_200_000, reply_to_post_id=LARGEST - 1
    )
    counts = post_pb2.EngagementCounts(likes=LARGEST, reposts=2, replies=1)
    assert as_json(presentation.post(message, "Ada", counts)) == {
        "id": "9223372036854775807",
        "authorId": "7",
        "author": {"id": "7", "name": "Ada"},
        "content": "hi",
        "media": [],
        "createdAt": "2024-01-01T00:00:00.000Z",
        "editedAt": None,
        "replyTo": "9223372036854775806",
        "counts": {"likes": LARGEST, "reposts": 2, "replies": 1},
    }


def test_a_post_that_replies_to_none_says_so() -> None:
    assert as_json(presentation.post(post_pb2.Post(), "", None))["replyTo"] is None


def test_counts_that_are_not_known_are_null_and_those_of_nobody_are_0() -> None:
    unknown, none = hydrate_pb2.HydratedPost(), hydrate_pb2.HydratedPost(counts=post_pb2.EngagementCounts())
    assert as_json(presentation.hydrated(unknown))["counts"] is None
    assert as_json(presentation.hydrated(none))["counts"] == {"likes": 0, "reposts": 0, "replies": 0}


def test_an_edited_post_says_when() -> None:
    message = post_pb2.Post(edited_at_ms=1_704_067_200_001)
    assert as_json(presentation.post(message, "", None))["editedAt"] == "2024-01-01T00:00:00.001Z"


def test_media_have_every_member() -> None:
    message = post_pb2.Post(media=[post_pb2.MediaReference(url="https://x.example/a", type="image")])
    assert as_json(presentation.post(message, "", None))["media"] == [
        {"url": "https://x.example/a", "type": "image", "width": 0, "height": 0, "altText": ""}
    ]


def test_a_user_has_every_member() -> None:
    assert as_json(presentation.user(graph_pb2.User(id=1, name="Ada"))) == {
        "id": "1",
        "name": "Ada",
        "followerCount": 0,
        "followingCount": 0,
        "suspended": False,
    }


def test_a_suspended_user_says_so() -> None:
    message = graph_pb2.User(standing=graph_pb2.USER_STANDING_SUSPENDED)
    assert as_json(presentation.user(message))["suspended"] is True


def test_users_are_a_page() -> None:
    assert as_json(presentation.users([], "next")) == {"items": [], "nextCursor": "next"}
    assert as_json(presentation.users([graph_pb2.User(id=1)]))["items"][0]["id"] == "1"


def test_a_relationship_has_every_member() -> None:
    assert as_json(presentation.relationship(graph_pb2.Relationship(user_id=1))) == {
        "userId": "1",
        "following": False,
        "followedBy": False,
        "muting": False,
        "blocking": False,
        "favourite": False,
    }


def test_that_somebody_blocks_the_viewer_is_not_told() -> None:
    told, silent = graph_pb2.Relationship(user_id=1, blocked_by=True), graph_pb2.Relationship(user_id=1)
    assert as_json(presentation.relationship(told)) == as_json(presentation.relationship(silent))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            graph_pb2.FollowResult(followee_id=1, outcome=graph_pb2.FOLLOW_OUTCOME_FOLLOWED),
            {"userId": "1", "outcome": "followed"},
        ),
        (
            graph_pb2.FollowResult(followee_id=1, outcome=graph_pb2.FOLLOW_OUTCOME_ALREADY),
            {"userId": "1", "outcome": "already"},
        ),
        (
            graph_pb2.FollowResult(
                followee_id=1, outcome=graph_pb2.FOLLOW_OUTCOME_REFUSED, reason="CANNOT_FOLLOW_SELF"
            ),
            {"userId": "1", "outcome": "refused", "reason": "CANNOT_FOLLOW_SELF"},
        ),
    ],
)
def test_a_follow_has_its_outcome(result: graph_pb2.FollowResult, expected: dict[str, str]) -> None:
    assert as_json(presentation.follow_results(graph_pb2.BatchFollowResponse(results=[result]))) == {
        "results": [expected]
    }


@given(st.text(), st.text())
def test_text_comes_through_unchanged(content: str, name: str) -> None:
    post = as_json(presentation.post(post_pb2.Post(content=content), name, None))
    assert (post["content"], post["author"]["name"]) == (content, name)
