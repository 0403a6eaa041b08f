"""The process `fanout`: `python -m fanout_service`. It serves its contract and consumes all its topics.

`python -m fanout_service topics` makes the topics that are missing.
"""

import math
import secrets
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feed.graph.v1 import graph_pb2
from feed.post.v1 import post_pb2
from feedkit import kafka, kafka_topics, redis, telemetry
from feedkit.channel import connect
from feedkit.kafka import Producer
from feedkit.redis import Redis
from feedkit.server import Process, main, once

from fanout_service.account_events import AccountEvents
from fanout_service.attempts import NOT_NOW
from fanout_service.background import Chore, doing
from fanout_service.broker_client import ChunkTopic, WishTopic
from fanout_service.cache_store import CacheStore, Lengths
from fanout_service.celebrity_line import CelebrityLine, Limits
from fanout_service.config import FanoutSettings
from fanout_service.consumer import topics
from fanout_service.consumer.dead_letters import DeadLetters
from fanout_service.consumer.membership import Membership, broker_configuration
from fanout_service.consumer.topic_consumer import Consumes, Topic, TopicConsumer, consuming
from fanout_service.delivery import Delivery, Sizes
from fanout_service.engagement_events import EngagementEvents
from fanout_service.erase import Erase
from fanout_service.feature_store import FeatureStore
from fanout_service.graph_client import GraphClient
from fanout_service.graph_events import GraphEvents
from fanout_service.history_store import HistoryStore
from fanout_service.lag_client import LagClient
from fanout_service.leader_store import LeaderStore, LineStore
from fanout_service.leading import Leading
from fanout_service.leaving import Leaving
from fanout_service.leaving import Sizes as LeavingSizes
from fanout_service.line_in_force import LineControl, LineInForce
from fanout_service.measures import Measures
from fanout_service.outbox_client import OutboxClient
from fanout_service.pace import Pace
from fanout_service.post_client import PostClient
from fanout_service.post_events import PostEvents
from fanout_service.pulled_index_client import PulledIndexClient
from fanout_service.rebuild import Rebuild
from fanout_service.recents_store import RecentsStore
from fanout_service.reconcile import Reconcile
from fanout_service.repairs import Repairs
from fanout_service.rpc import DELIVERY, FanoutServicer
from fanout_service.settlement import Settlement, Work
from fanout_service.timeline_store import TimelineStore

SERVICE = fanout_pb2.DESCRIPTOR.services_by_name["FanoutService"]
REFRESH_SECONDS = 1.0
"""How long this process may not know that the celebrity line has moved."""
MEASURE_SECONDS = 10.0
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
POST = post_pb2.DESCRIPTOR.services_by_name["PostService"]


async def run(process: Process, settings: FanoutSettings) -> None:
    """Serve and consume until the process is stopped."""
    store = await process.enter(redis.connect(settings))
    await redis.report_settings(store)
    producer = await process.enter(kafka.producer(settings))
    to_graph = await process.enter(connect(settings.graph_target, GRAPH, "graph"))
    to_post = await process.enter(connect(settings.post_target, POST, "post"))

    celebrity_line = CelebrityLine(_limits(settings))
    line = LineInForce(LineStore(store), celebrity_line)
    graph = GraphClient(to_graph, threshold=lambda: line.threshold, active_days=settings.active_days)
    post = PostClient(to_post)
    recents = RecentsStore(store, settings.pulled_staleness_seconds)
    consumers = _consumers(settings, store=store, producer=producer, graph=graph, post=post, recents=recents)
    await process.enter(consuming(consumers, process.stopping, settings.grace_seconds))

    lag = await process.enter(LagClient(broker_configuration(settings), topics.SUBSCRIPTIONS))
    leaders = LeaderStore(store)
    leading = await process.enter(_leading(leaders, settings.leader_seconds))
    control = LineControl(line, celebrity_line, partial(lag.oldest_ms, *DELIVERY), leading)
    leaving = Leaving(
        PulledIndexClient(to_graph),
        graph,
        post,
        HistoryStore(store, length=settings.timeline_length),
        sizes=LeavingSizes(settings.timeline_length, settings.leaving_batch),
        pace=Pace(settings.leaving_timelines_per_second / settings.leaving_batch),
        may_go_on=lambda: control.is_calm,
    )
    await process.enter(doing(_chores(settings, line, control, leaving)))
    if telemetry.is_measuring():
        measures = Measures(lag, line, leading)
        await process.enter(doing([Chore("measuring", measures.take, MEASURE_SECONDS, MEASURE_SECONDS)]))

    settlement = Settlement([OutboxClient(to_post), OutboxClient(to_graph)], lag, recents)
    servicer = FanoutServicer(
        settlement,
        lag,
        WishTopic(producer),
        line,
        leaders.leader,
        configured_threshold=settings.celebrity_threshold,
    )
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
    lengths = Lengths(settings.own_length, settings.recents_length)
    cached = CacheStore(store, lengths, feature_days=settings.feature_days)
    sizes = Sizes(settings.push_batch, settings.chunk_size, settings.fanout_authors_at_once)
    delivery = Delivery(graph, timelines, ChunkTopic(producer), sizes)
    rebuild = Rebuild(timelines, graph, post, length)
    reconcile = Reconcile(timelines, graph, post, length)
    wishes = WishTopic(producer)
    erase = Erase(graph, post, cached, wishes)
    pace = Pace(settings.reconciles_per_second)
    post_events = PostEvents(cached, graph, recents, delivery, wishes)
    graph_events, account_events = GraphEvents(cached, graph, wishes), AccountEvents(cached, wishes)
    engagement_events = EngagementEvents(FeatureStore(store, settings), time.time)
    repairs = Repairs(rebuild, reconcile, erase, pace, settings.reconciles_at_once)

    def consumer(work: Work, topic: Topic[Any]) -> Consumes:
        group = topics.SUBSCRIPTIONS[work].group
        return TopicConsumer(topic, partial(Membership, settings, topic.name, group), DeadLetters(producer))

    return [
        consumer(Work.POST_EVENTS, topics.posts(post_events, settings.fanout_event_batch)),
        consumer(Work.GRAPH_EVENTS, topics.graph(graph_events, account_events, settings.fanout_event_batch)),
        consumer(Work.CHUNKS, topics.chunks(delivery)),
        consumer(Work.WISHES, topics.wishes(repairs, settings.reconcile_batch)),
        consumer(Work.ENGAGEMENT_EVENTS, topics.engagement(engagement_events, settings.engagement_batch)),
    ]


def _limits(settings: FanoutSettings) -> Limits:
    return Limits(
        configured=settings.celebrity_threshold,
        floor=settings.celebrity_floor,
        lag_limit_ms=settings.lag_limit_seconds * 1000,
        lag_clear_ms=settings.lag_clear_seconds * 1000,
        clear_for_seconds=settings.lag_clear_for_seconds,
    )


@asynccontextmanager
async def _leading(leaders: LeaderStore, seconds: float) -> AsyncGenerator[Leading]:
    """Take part in leading. Who ends in peace lets another one lead at once."""
    leading = Leading(leaders, f"{socket.gethostname()}-{secrets.token_hex(4)}", seconds)
    chore = Chore("leading", leading.keep_up, seconds / 5, seconds / 5)
    async with doing([chore]):
        yield leading
    with suppress(*NOT_NOW):
        await leading.resign()


def _chores(settings: FanoutSettings, line: LineInForce, control: LineControl, leaving: Leaving) -> list[Chore]:
    async def let_leave() -> None:
        await leaving.let_leave(math.ceil(settings.celebrity_leave_ratio * line.threshold))

    step, interval = settings.celebrity_step_seconds, settings.leaving_interval_seconds
    return [
        Chore("following the celebrity line", line.refresh, REFRESH_SECONDS, REFRESH_SECONDS),
        Chore("moving the celebrity line", control.step, step, step),
        Chore("letting authors leave the index", let_leave, interval, 8 * interval),
    ]


if __name__ == "__main__":
    main("fanout", FanoutSettings, run, {"topics": kafka_topics.create})
