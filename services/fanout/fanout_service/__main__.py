"""The process `fanout`: `python -m fanout_service`. It serves its contract and consumes all its topics."""

from functools import partial
from typing import Any

from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feed.graph.v1 import graph_pb2
from feed.post.v1 import post_pb2
from feedkit import kafka, redis
from feedkit.channel import connect
from feedkit.kafka import Producer
from feedkit.redis import Redis
from feedkit.server import Process, main, once

from fanout_service.broker_client import ChunkTopic, WishTopic
from fanout_service.cache_store import CacheStore
from fanout_service.config import FanoutSettings
from fanout_service.consumer import topics
from fanout_service.consumer.dead_letters import DeadLetters
from fanout_service.consumer.membership import Membership, broker_configuration
from fanout_service.consumer.topic_consumer import Consumes, Topic, TopicConsumer, consuming
from fanout_service.delivery import Delivery, Sizes
from fanout_service.follow_events import FollowEvents
from fanout_service.graph_client import GraphClient
from fanout_service.lag_client import LagClient
from fanout_service.outbox_client import OutboxClient
from fanout_service.pace import Pace
from fanout_service.post_client import PostClient
from fanout_service.post_events import PostEvents
from fanout_service.rebuild import Rebuild
from fanout_service.recents_store import RecentsStore
from fanout_service.reconcile import Reconcile
from fanout_service.repairs import Repairs
from fanout_service.rpc import FanoutServicer
from fanout_service.settlement import Settlement, Work
from fanout_service.timeline_store import TimelineStore

SERVICE = fanout_pb2.DESCRIPTOR.services_by_name["FanoutService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
POST = post_pb2.DESCRIPTOR.services_by_name["PostService"]


async def run(process: Process, settings: FanoutSettings) -> None:
    """Serve and consume until the process is stopped."""
    store = await process.enter(redis.connect(settings))
    await redis.report_settings(store)
    producer = await process.enter(kafka.producer(settings))
    to_graph = await process.enter(connect(settings.graph_target, GRAPH, "graph"))
    to_post = await process.enter(connect(settings.post_target, POST, "post"))

    threshold = settings.celebrity_threshold
    graph = GraphClient(to_graph, threshold=threshold, active_days=settings.active_days)
    recents = RecentsStore(store, settings.recents_length, settings.pulled_staleness_seconds)
    consumers = _consumers(
        settings, store=store, producer=producer, graph=graph, post=PostClient(to_post), recents=recents
    )
    await process.enter(consuming(consumers, process.stopping, settings.grace_seconds))

    lag = await process.enter(LagClient(broker_configuration(settings), topics.SUBSCRIPTIONS))
    settlement = Settlement([OutboxClient(to_post), OutboxClient(to_graph)], lag, recents)
    servicer = FanoutServicer(settlement, lag, WishTopic(producer), threshold=threshold)
    await process.serve(
        settings,
        lambda server: fanout_pb2_grpc.add_FanoutServiceServicer_to_server(servicer, server),
        [SERVICE.full_name],
        ready=[store.ping, once(producer.check), once(to_graph.require_serving), once(to_post.require_serving)],
    )


def _consumers(
    settings: FanoutSettings,
    *,
    store: Redis,
    producer: Producer,
    graph: GraphClient,
    post: PostClient,
    recents: RecentsStore,
) -> list[Consumes]:
    """One for each topic, with the work that it has to do."""
    length = settings.timeline_length
    timelines = TimelineStore(store, length=length, life_days=settings.timeline_days)
    cached = CacheStore(store, own_length=settings.own_length)
    sizes = Sizes(settings.push_batch, settings.chunk_size, settings.fanout_authors_at_once)
    delivery = Delivery(graph, timelines, ChunkTopic(producer), sizes)
    rebuild = Rebuild(timelines, graph, post, length)
    reconcile = Reconcile(timelines, graph, post, length)
    pace = Pace(settings.reconciles_per_second)
    post_events = PostEvents(cached, graph, recents, delivery)
    follow_events = FollowEvents(cached, graph, WishTopic(producer))
    repairs = Repairs(rebuild, reconcile, pace, settings.reconciles_at_once)

    def consumer(work: Work, topic: Topic[Any]) -> Consumes:
        group = topics.SUBSCRIPTIONS[work].group
        return TopicConsumer(topic, partial(Membership, settings, topic.name, group), DeadLetters(producer))

    return [
        consumer(Work.POST_EVENTS, topics.posts(post_events, settings.fanout_event_batch)),
        consumer(Work.FOLLOW_EVENTS, topics.follows(follow_events, settings.fanout_event_batch)),
        consumer(Work.CHUNKS, topics.chunks(delivery)),
        consumer(Work.WISHES, topics.wishes(repairs, settings.reconcile_batch)),
    ]


if __name__ == "__main__":
    main("fanout", FanoutSettings, run)
