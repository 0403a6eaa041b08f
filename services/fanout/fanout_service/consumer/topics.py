"""The five topics that this service consumes."""

from collections.abc import Sequence

from feed.events.v1 import events_pb2
from feedkit import kafka
from feedkit.feature_keys import DWELL_SECONDS

from fanout_service.account_events import AccountEvents
from fanout_service.consumer.records import Poisonous, kind, reader
from fanout_service.consumer.topic_consumer import Topic
from fanout_service.delivery import Delivery
from fanout_service.engagement_events import (
    Engagement,
    EngagementChange,
    EngagementEvent,
    EngagementEvents,
    Impressions,
    SeenPost,
)
from fanout_service.events import (
    AccountChange,
    AccountEvent,
    AnyWish,
    Chunk,
    EdgeChange,
    EraseWish,
    GraphEvent,
    PostChange,
    PostEvent,
    Wish,
)
from fanout_service.graph_events import GraphEvents
from fanout_service.lag_client import Subscription
from fanout_service.post_events import PostEvents
from fanout_service.repairs import Repairs
from fanout_service.settlement import Work

SUBSCRIPTIONS = {
    Work.POST_EVENTS: Subscription(kafka.POST_EVENTS, "feed.fanout.posts"),
    Work.GRAPH_EVENTS: Subscription(kafka.GRAPH_EVENTS, "feed.fanout.graph"),
    Work.CHUNKS: Subscription(kafka.FANOUT_CHUNKS, "feed.fanout.chunks"),
    Work.WISHES: Subscription(kafka.RECONCILE, "feed.fanout.reconcile"),
    Work.ENGAGEMENT_EVENTS: Subscription(kafka.ENGAGEMENT_EVENTS, "feed.fanout.engagement"),
}

POST_CHANGES = {
    events_pb2.POST_EVENT_KIND_CREATED: PostChange.WRITTEN,
    events_pb2.POST_EVENT_KIND_EDITED: PostChange.EDITED,
    events_pb2.POST_EVENT_KIND_DELETED: PostChange.DELETED,
}
EDGE_CHANGES = {
    events_pb2.GRAPH_EVENT_KIND_FOLLOWED: EdgeChange.FOLLOWED,
    events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED: EdgeChange.UNFOLLOWED,
    events_pb2.GRAPH_EVENT_KIND_MUTED: EdgeChange.MUTED,
    events_pb2.GRAPH_EVENT_KIND_UNMUTED: EdgeChange.UNMUTED,
    events_pb2.GRAPH_EVENT_KIND_BLOCKED: EdgeChange.BLOCKED,
    events_pb2.GRAPH_EVENT_KIND_UNBLOCKED: EdgeChange.UNBLOCKED,
    events_pb2.GRAPH_EVENT_KIND_FAVOURED: EdgeChange.FAVOURED,
    events_pb2.GRAPH_EVENT_KIND_UNFAVOURED: EdgeChange.UNFAVOURED,
}
ACCOUNT_CHANGES = {
    events_pb2.USER_EVENT_KIND_SUSPENDED: AccountChange.SUSPENDED,
    events_pb2.USER_EVENT_KIND_RESTORED: AccountChange.RESTORED,
    events_pb2.USER_EVENT_KIND_DELETED: AccountChange.DELETED,
    events_pb2.USER_EVENT_KIND_VIEW_CHOSEN: AccountChange.VIEW_CHOSEN,
}

ENGAGEMENT_CHANGES = {
    events_pb2.ENGAGEMENT_EVENT_KIND_LIKED: EngagementChange.LIKED,
    events_pb2.ENGAGEMENT_EVENT_KIND_UNLIKED: EngagementChange.UNLIKED,
    events_pb2.ENGAGEMENT_EVENT_KIND_REPOSTED: EngagementChange.REPOSTED,
    events_pb2.ENGAGEMENT_EVENT_KIND_UNREPOSTED: EngagementChange.UNREPOSTED,
    events_pb2.ENGAGEMENT_EVENT_KIND_REPLIED: EngagementChange.REPLIED,
    events_pb2.ENGAGEMENT_EVENT_KIND_UNREPLIED: EngagementChange.UNREPLIED,
    events_pb2.ENGAGEMENT_EVENT_KIND_LESS_LIKE_THIS: EngagementChange.LESS_LIKE_THIS,
    events_pb2.ENGAGEMENT_EVENT_KIND_HIDDEN: EngagementChange.HIDDEN,
}


def posts(events: PostEvents, most: int) -> Topic[PostEvent]:
    """What happened to posts."""
    return Topic(kafka.POST_EVENTS, reader(kind(events_pb2.PostEvent, _post_event)), events.handle, most)


def graph(edges: GraphEvents, accounts: AccountEvents, most: int) -> Topic[GraphEvent | AccountEvent]:
    """What happened between users, and to their accounts."""

    async def handle(taken: Sequence[GraphEvent | AccountEvent]) -> None:
        await accounts.handle([event for event in taken if isinstance(event, AccountEvent)])
        await edges.handle([event for event in taken if isinstance(event, GraphEvent)])

    read = reader(kind(events_pb2.GraphEvent, _graph_event), kind(events_pb2.UserEvent, _account_event))
    return Topic(kafka.GRAPH_EVENTS, read, handle, most)


def chunks(delivery: Delivery) -> Topic[Chunk]:
    """Parts of large fan-outs, one at a time, because a crash repeats what was taken together."""

    async def handle(taken: Sequence[Chunk]) -> None:
        for chunk in taken:
            await delivery.deliver_chunk(chunk)

    return Topic(kafka.FANOUT_CHUNKS, reader(kind(events_pb2.FanoutChunk, _chunk)), handle, 1)


def wishes(repairs: Repairs, most: int) -> Topic[AnyWish]:
    """Timelines to be mended and users to be erased; what is taken together is de-duplicated."""
    read = reader(kind(events_pb2.ReconcileWish, _wish), kind(events_pb2.EraseWish, _erase_wish))
    return Topic(kafka.RECONCILE, read, repairs.carry_out, most)


def engagement(events: EngagementEvents, most: int) -> Topic[EngagementEvent]:
    """What people did with posts; what is taken together is summed up."""
    read = reader(kind(events_pb2.EngagementEvent, _engagement), kind(events_pb2.ImpressionsEvent, _impressions))
    return Topic(kafka.ENGAGEMENT_EVENTS, read, events.handle, most)


def _post_event(message: events_pb2.PostEvent) -> PostEvent:
    if (change := POST_CHANGES.get(message.kind)) is None:
        raise Poisonous("the kind of the event is not told")
    return PostEvent(message.post_id, message.author_id, change)


def _graph_event(message: events_pb2.GraphEvent) -> GraphEvent:
    if (change := EDGE_CHANGES.get(message.kind)) is None:
        raise Poisonous("the kind of the event is not told")
    return GraphEvent(message.follower_id, message.followee_id, change)


def _account_event(message: events_pb2.UserEvent) -> AccountEvent:
    if (change := ACCOUNT_CHANGES.get(message.kind)) is None:
        raise Poisonous("the kind of the event is not told")
    return AccountEvent(message.user_id, change)


def _chunk(message: events_pb2.FanoutChunk) -> Chunk:
    return Chunk(message.post_id, message.author_id, message.follower_ids, message.withdrawn)


def _wish(message: events_pb2.ReconcileWish) -> Wish:
    return Wish(message.viewer_id, message.author_id)


def _erase_wish(message: events_pb2.EraseWish) -> EraseWish:
    return EraseWish(message.user_id)


def _engagement(message: events_pb2.EngagementEvent) -> Engagement:
    if (change := ENGAGEMENT_CHANGES.get(message.kind)) is None:
        raise Poisonous("the kind of the event is not told")
    return Engagement(message.actor_id, message.post_id, message.author_id, change, message.occurred_at_ms / 1000)


def _impressions(message: events_pb2.ImpressionsEvent) -> Impressions:
    posts = [
        SeenPost(seen.post_id, seen.author_id, seen.dwell_ms / 1000, seen.dwell_ms >= DWELL_SECONDS * 1000)
        for seen in message.posts
    ]
    return Impressions(message.viewer_id, posts, message.occurred_at_ms / 1000)
