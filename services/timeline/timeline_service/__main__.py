"""The process `timeline`: `python -m timeline_service`."""

import time

from feed.fanout.v1 import fanout_pb2
from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit import keys
from feedkit import redis as feed_redis
from feedkit.channel import connect
from feedkit.redis import Redis
from feedkit.server import Process, main, once

from timeline_service.activity import Activity
from timeline_service.author_posts import CachedLists
from timeline_service.config import TimelineSettings
from timeline_service.contexts import Contexts
from timeline_service.fanout_client import FanoutClient
from timeline_service.graph_client import GraphClient
from timeline_service.home_store import HomeStore, ListStore, announcements
from timeline_service.homes import Homes
from timeline_service.hydrate_client import HydrateClient
from timeline_service.mix import Mix
from timeline_service.post_client import PostClient
from timeline_service.pulled_index import PulledIndex
from timeline_service.rebuild_wishes import RebuildWishes
from timeline_service.recents import Recents
from timeline_service.rpc import TimelineServicer

SERVICE = timeline_pb2.DESCRIPTOR.services_by_name["TimelineService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
POST = post_pb2.DESCRIPTOR.services_by_name["PostService"]
HYDRATE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
FANOUT = fanout_pb2.DESCRIPTOR.services_by_name["FanoutService"]
SECONDS_A_DAY = 86_400


async def run(process: Process, settings: TimelineSettings) -> None:
    """Serve until the process is stopped."""
    to_graph = await process.enter(connect(settings.graph_target, GRAPH, "graph"))
    to_post = await process.enter(connect(settings.post_target, POST, "post"))
    to_hydrate = await process.enter(connect(settings.hydrate_target, HYDRATE, "hydrate"))
    redis = await process.enter(feed_redis.connect(settings))
    await feed_redis.report_settings(redis)

    graph, post = GraphClient(to_graph), PostClient(to_post)
    store = HomeStore(
        redis,
        cache_ms=int(settings.cache_seconds * 1000),
        timeline_ms=settings.timeline_days * SECONDS_A_DAY * 1000,
    )
    activity = Activity(
        graph.record_activity, store.keep_timeline, time.time, remembered=settings.timeline_activity_remembered
    )
    servicer = TimelineServicer(
        await _homes(process, settings, redis, store, graph=graph, post=post),
        Mix(HydrateClient(to_hydrate), hydration_rounds=settings.timeline_hydration_rounds),
        await process.enter(activity),
    )
    await process.serve(
        settings,
        lambda server: timeline_pb2_grpc.add_TimelineServiceServicer_to_server(servicer, server),
        [SERVICE.full_name],
        # Neither Redis nor `fanout`: without them reads are slower, and right.
        ready=[once(to_graph.require_serving), once(to_post.require_serving), once(to_hydrate.require_serving)],
    )


async def _homes(
    process: Process,
    settings: TimelineSettings,
    redis: Redis,
    store: HomeStore,
    *,
    graph: GraphClient,
    post: PostClient,
) -> Homes:
    """Home timelines, with all that works behind them."""
    own, recents = (
        CachedLists(ListStore(redis, key, cache_ms=int(settings.cache_seconds * 1000)), post, length)
        for key, length in ((keys.own, settings.own_length), (keys.recents, settings.recents_length))
    )
    remembered = Recents(
        recents.get,
        time.monotonic,
        staleness=settings.pulled_staleness_seconds,
        remembered=settings.timeline_recents_remembered,
    )
    index = PulledIndex(graph.changes_of_pulled_index, time.monotonic, staleness=settings.pulled_staleness_seconds)
    to_fanout = await process.enter(connect(settings.fanout_target, FANOUT, "fanout"))
    wishes = RebuildWishes(
        FanoutClient(to_fanout).rebuild, time.monotonic, pause_seconds=settings.timeline_rebuild_pause_seconds
    )
    # With threshold 0 nothing is pushed: the index is not asked for, stays unknown, and everything is pulled.
    if settings.celebrity_threshold:
        await process.enter(index)
        await process.enter(wishes)
        await process.enter(
            announcements(redis, lambda author: _announced(author, index, remembered), remembered.forget_all)
        )
    return Homes(
        store, Contexts(graph, store), post, own, remembered, pulled=lambda: index.authors, wish_rebuild=wishes.wish
    )


def _announced(author_id: int, index: PulledIndex, recents: Recents) -> None:
    """An author has a new post that was not pushed."""
    index.entered(author_id)
    recents.changed(author_id)


if __name__ == "__main__":
    main("timeline", TimelineSettings, run)
