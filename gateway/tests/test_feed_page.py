"""Pages of a home feed as the JSON that the public sees."""

import json
from typing import Any

import pytest
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2
from feed.timeline.v1.timeline_pb2 import GetHomeTimelineResponse as Page
from gateway.answers import encode

from gateway import feed_page

LATEST, RANKED = timeline_pb2.VIEW_LATEST, timeline_pb2.VIEW_RANKED
WHY = timeline_pb2.Explanation(
    source=timeline_pb2.ENTRY_SOURCE_PULLED,
    factors=[timeline_pb2.Factor(feature="affinity", value=2.5, effect=0.25)],
    predictions=[timeline_pb2.Prediction(signal="like", probability=0.125, weight=1.0)],
    score=0.375,
    scored_place=4,
    place=1,
    moves=[timeline_pb2.Move(rule="guaranteed-places", from_place=4, to_place=1)],
)


def as_json(message: Page) -> Any:
    return json.loads(encode(feed_page.of(message)))


def shown(*post_ids: int) -> list[hydrate_pb2.HydratedPost]:
    return [hydrate_pb2.HydratedPost(post=post_pb2.Post(id=post_id)) for post_id in post_ids]


def test_an_empty_feed_is_an_empty_list_without_a_cursor() -> None:
    assert as_json(Page(view=LATEST)) == {"items": [], "view": "latest", "notice": None, "insertions": []}


def test_a_feed_that_goes_on_carries_a_cursor() -> None:
    page = as_json(Page(view=RANKED, next_page_token="r:0123456789abcdef:20"))  # noqa: S106 (no password)
    assert (page["view"], page["nextCursor"]) == ("ranked", "r:0123456789abcdef:20")


@pytest.mark.parametrize(
    ("notice", "name"),
    [
        (timeline_pb2.NOTICE_UNSPECIFIED, None),
        (timeline_pb2.NOTICE_ORDER_EXPIRED, "orderExpired"),
        (timeline_pb2.NOTICE_RANKING_UNAVAILABLE, "rankingUnavailable"),
    ],
)
def test_a_notice_has_a_name(notice: timeline_pb2.Notice.ValueType, name: str | None) -> None:
    assert as_json(Page(view=LATEST, notice=notice))["notice"] == name


def test_a_notice_of_a_newer_timeline_costs_no_page() -> None:
    message = Page.FromString(Page(view=LATEST).SerializeToString() + b"\x20\x63")  # notice 99
    assert (message.notice, as_json(message)["notice"]) == (99, None)


def test_posts_are_not_explained_where_that_was_not_asked_for() -> None:
    (post,) = as_json(Page(view=RANKED, posts=shown(1)))["items"]
    assert "why" not in post


def test_each_post_comes_with_its_own_explanation() -> None:
    own = timeline_pb2.Explanation(source=timeline_pb2.ENTRY_SOURCE_OWN)
    page = as_json(Page(view=RANKED, posts=shown(1, 2), explanations=[WHY, own]))
    assert [(post["id"], post["why"]["source"]) for post in page["items"]] == [("1", "pulled"), ("2", "own")]


def test_an_explanation_has_every_member() -> None:
    page = as_json(Page(view=RANKED, posts=shown(1), explanations=[WHY]))
    plain = as_json(Page(view=RANKED, posts=shown(1)))
    assert page["items"] == [
        {
            **plain["items"][0],
            "why": {
                "source": "pulled",
                "factors": [{"feature": "affinity", "value": 2.5, "effect": 0.25}],
                "predictions": [{"signal": "like", "probability": 0.125, "weight": 1.0}],
                "score": 0.375,
                "scoredPlace": 4,
                "place": 1,
                "moves": [{"rule": "guaranteed-places", "fromPlace": 4, "toPlace": 1}],
            },
        }
    ]


def test_in_latest_there_is_no_score_and_no_place_by_it() -> None:
    own = timeline_pb2.Explanation(source=timeline_pb2.ENTRY_SOURCE_OWN, place=3)
    (post,) = as_json(Page(view=timeline_pb2.VIEW_LATEST, posts=shown(1), explanations=[own]))["items"]
    assert (post["why"]["score"], post["why"]["scoredPlace"], post["why"]["place"]) == (None, None, 3)


def test_an_insertion_has_every_member() -> None:
    words = {"kind": "announcement", "label": "Announcement", "text": "We have moved."}
    insertions = [
        timeline_pb2.Insertion(before_index=3, url="https://x.example/", **words),
        timeline_pb2.Insertion(before_index=20, **words),
    ]
    assert as_json(Page(view=RANKED, insertions=insertions))["insertions"] == [
        {"beforeIndex": 3, **words, "url": "https://x.example/"},
        {"beforeIndex": 20, **words, "url": None},
    ]
