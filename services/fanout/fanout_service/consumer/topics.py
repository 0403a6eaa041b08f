"""The four topics that this service consumes."""

from collections.abc import Sequence

from feed.events.v1 import events_pb2
from feedkit import kafka

from fanout_service.consumer.records import Poisonous, reader
from fanout_service.consumer.topic_consumer import Topic
from fanout_service.delivery import Delivery
from fanout_service.events import Chunk, FollowEvent, PostEvent, Wish
from fanout_service.follow_events import FollowEvents
from fanout_service.lag_client import Subscription
from fanout_service.post_events import PostEvents
from fanout_service.repairs import Repairs
from fanout_service.settlement import Work

SUBSCRIPTIONS = {
    Work.POST_EVENTS: Subscription(kafka.POST_EVENTS, "feed.fanout.posts"),
    Work.FOLLOW_EVENTS: Subscription(kafka.GRAPH_EVENTS, "feed.fanout.graph"),
    Work.CHUNKS: Subscription(kafka.FANOUT_CHUNKS, "feed.fanout.chunks"),
    Work.WISHES: Subscription(kafka.RECONCILE, "feed.fanout.reconcile"),
}


def posts(events: PostEvents, most: int) -> Topic[PostEvent]:
    """What happened to posts."""
    return Topic(kafka.POST_EVENTS, reader(events_pb2.PostEvent, _post_event), events.handle, most)


def follows(events: FollowEvents, most: int) -> Topic[FollowEvent]:
    """What happened between users."""
    return Topic(kafka.GRAPH_EVENTS, reader(events_pb2.GraphEvent, _follow_event), events.handle, most)


def chunks(delivery: Delivery) -> Topic[Chunk]:
    """Parts of large fan-outs, one at a time, because a crash repeats what was taken together."""

    async def handle(taken: Sequence[Chunk]) -> None:
        for chunk in taken:
            await delivery.deliver_chunk(chunk)

    return Topic(kafka.FANOUT_CHUNKS, reader(events_pb2.FanoutChunk, _chunk), handle, 1)


def wishes(repairs: Repairs, most: int) -> Topic[Wish]:
    """Timelines to be mended; what is taken together is de-duplicated."""
    return Topic(kafka.RECONCILE, reader(events_pb2.ReconcileWish, _wish), repairs.carry_out, most)


def _post_event(message: events_pb2.PostEvent) -> PostEvent:
    if message.kind == events_pb2.POST_EVENT_KIND_UNSPECIFIED:
        raise Poisonous("the kind of the event is not told")
    return PostEvent(message.post_id, message.author_id, message.kind == events_pb2.POST_EVENT_KIND_DELETED)


def _follow_event(message: events_pb2.GraphEvent) -> FollowEvent:
    if message.kind == events_pb2.GRAPH_EVENT_KIND_UNSPECIFIED:
        raise Poisonous("the kind of the event is not told")
    return FollowEvent(message.follower_id, message.followee_id)


def _chunk(message: events_pb2.FanoutChunk) -> Chunk:
    return Chunk(message.post_id, message.author_id, message.follower_ids)


def _wish(message: events_pb2.ReconcileWish) -> Wish:
    return Wish(message.viewer_id, message.author_id)
