"""A page of a home feed as the JSON that the public sees: the posts, and why each of them is where it is."""

from collections.abc import Sequence

from feed.timeline.v1 import timeline_pb2
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple

from gateway import presentation
from gateway.presentation import Post

VIEWS = {"latest": timeline_pb2.VIEW_LATEST, "ranked": timeline_pb2.VIEW_RANKED}
"""The views of a home feed by the names that the public knows them by."""

_NAMES_OF_VIEWS = {view: name for name, view in VIEWS.items()}
# What is not among these is nothing that readers know how to be told.
_NOTICES = {
    timeline_pb2.NOTICE_ORDER_EXPIRED: "orderExpired",
    timeline_pb2.NOTICE_RANKING_UNAVAILABLE: "rankingUnavailable",
}
_SOURCES = {
    timeline_pb2.ENTRY_SOURCE_PUSHED: "pushed",
    timeline_pb2.ENTRY_SOURCE_PULLED: "pulled",
    timeline_pb2.ENTRY_SOURCE_OWN: "own",
}


class Factor(Struct, gc=False):
    """A feature that weighed in a prediction."""

    feature: str
    value: float
    effect: float


class Prediction(Struct, gc=False):
    """What the viewer was predicted to do; `probability` is from 0 to 1."""

    signal: str
    probability: float
    weight: float


class Move(Struct, rename="camel", gc=False):
    """How a rule moved a post; places are counted from 0, at the top."""

    rule: str
    from_place: int
    to_place: int


class Why(Struct, rename="camel"):
    """How a post came to be where it is. In LATEST nothing is predicted: there is no score, and no place by it."""

    source: str
    factors: list[Factor]
    predictions: list[Prediction]
    score: float | None
    scored_place: int | None
    place: int
    moves: list[Move]


class ExplainedPost(Post):
    """A post, and why it is where it is."""

    why: Why


class Insertion(Struct, rename="camel", gc=False):
    """Something between the posts that nobody whom the viewer follows wrote."""

    before_index: int
    kind: str
    label: str
    text: str
    url: str | None


class Feed(Struct, rename="camel"):
    """A page of a home feed."""

    items: Sequence[Post]
    view: str
    notice: str | None
    insertions: list[Insertion]
    next_cursor: str | UnsetType = UNSET


def of(message: timeline_pb2.GetHomeTimelineResponse) -> Feed:
    """A page of a home feed. Its posts say why they are there, where that was asked for."""
    items = [presentation.hydrated(item) for item in message.posts]
    if message.explanations:
        items = [
            ExplainedPost(*astuple(post), why=_why(explanation, is_ranked=message.view == timeline_pb2.VIEW_RANKED))
            for post, explanation in zip(items, message.explanations, strict=True)
        ]
    return Feed(
        items,
        _NAMES_OF_VIEWS[message.view],
        _NOTICES.get(message.notice),
        [_insertion(each) for each in message.insertions],
        message.next_page_token or UNSET,
    )


def _why(message: timeline_pb2.Explanation, *, is_ranked: bool) -> Why:
    return Why(
        _SOURCES[message.source],
        [Factor(each.feature, each.value, each.effect) for each in message.factors],
        [Prediction(each.signal, each.probability, each.weight) for each in message.predictions],
        message.score if is_ranked else None,
        message.scored_place if is_ranked else None,
        message.place,
        [Move(each.rule, each.from_place, each.to_place) for each in message.moves],
    )


def _insertion(message: timeline_pb2.Insertion) -> Insertion:
    return Insertion(message.before_index, message.kind, message.label, message.text, message.url or None)
