"""The process `timeline`: `python -m timeline_service`."""

import logging
import time
from pathlib import Path

from feed.fanout.v1 import fanout_pb2
from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit import keys, telemetry
from feedkit import redis as feed_redis
from feedkit.channel import connect
from feedkit.config import ConfigurationError
from feedkit.redis import Redis
from feedkit.server import Process, main, once
from feedrank import models

from timeline_service.activity import Activity
from timeline_service.author_memory import AuthorMemory
from timeline_service.author_posts import CachedLists
from timeline_service.config import RankingSettings, TimelineSettings
from timeline_service.contexts import Contexts
from timeline_service.fanout_client import FanoutClient
from timeline_service.feature_store import FeatureStore
from timeline_service.features import Features
from timeline_service.graph_client import GraphClient
from timeline_service.home_store import HomeStore, ListStore, announcements
from timeline_service.homes import Homes
from timeline_service.hydrate_client import HydrateClient
from timeline_service.latest import Latest
from timeline_service.mix import Mix
from timeline_service.order_store import OrderStore
from timeline_service.pages import View
from timeline_service.post_client import PostClient
from timeline_service.pulled_index import PulledIndex
from timeline_service.ranked import Ranked
from timeline_service.ranker import Obstacle, Ranker
from timeline_service.ranking.insertions import Announcement, Inserter
from timeline_service.ranking.rules import Rules
from timeline_service.ranking.rules.author_diversity import AuthorDiversity
from timeline_service.ranking.rules.freshness import Freshness
from timeline_service.ranking.rules.guaranteed_places import GuaranteedPlaces
from timeline_service.ranking.rules.head_share import HeadShare
from timeline_service.ranking.rules.hidden import Hidden
from timeline_service.ranking.rules.runs import Runs
from timeline_service.ranking.rules.seen import Seen
from timeline_service.ranking.rules.topic_diversity import TopicDiversity
from timeline_service.rebuild_wishes import RebuildWishes
from timeline_service.recents import Recents
from timeline_service.rpc import TimelineServicer
from timeline_service.views import Views

SERVICE = timeline_pb2.DESCRIPTOR.services_by_name["TimelineService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
POST = post_pb2.DESCRIPTOR.services_by_name["PostService"]
HYDRATE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
FANOUT = fanout_pb2.DESCRIPTOR.services_by_name["FanoutService"]
SECONDS_AN_HOUR, SECONDS_A_DAY = 3_600, 86_400
logger = logging.getLogger(__name__)


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
    contexts = Contexts(graph, store)
    homes = await _homes(process, settings, redis, store, graph=graph, contexts=contexts, post=post)
    hydrator, tally = HydrateClient(to_hydrate), _Tally()
    latest = Latest(Mix(hydrator, hydration_rounds=settings.timeline_hydration_rounds))
    ranker = await _ranker(process, settings, redis, post)
    ranked = Ranked(
        homes,
        contexts,
        latest,
        hydrator,
        ranker=ranker,
        orders=OrderStore(redis, most=settings.ranked_orders, life_ms=int(settings.ranked_seconds * 1000)),
        inserter=_inserter(settings),
        tally=tally,
        candidates=settings.candidates,
        hydration_rounds=settings.timeline_hydration_rounds,
    )
    servicer = TimelineServicer(
        Views(homes, latest, ranked, tally),
        ranker.recipe,
        candidates=settings.candidates,
        note_activity=(await process.enter(activity)).seen,
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
    contexts: Contexts,
    post: PostClient,
) -> Homes:
    """Home timelines, with all that works behind them."""
    # How long a new post may not be known is shared by replicas that may be behind, and by what is remembered.
    behind = settings.pulled_staleness_seconds / 2 if settings.redis_read_replicas else 0.0
    own, recents = (
        CachedLists(ListStore(redis, key, cache_ms=int(settings.cache_seconds * 1000), age=age), post, length)
        for key, length, age in (
            (keys.own, settings.own_length, 0.0),
            (keys.recents, settings.recents_length, behind),
        )
    )
    remembered = Recents(
        recents.get,
        time.monotonic,
        staleness=settings.pulled_staleness_seconds - behind,
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
    return Homes(store, contexts, post, own, remembered, pulled=lambda: index.authors, wish_rebuild=wishes.wish)


def _announced(author_id: int, index: PulledIndex, recents: Recents) -> None:
    """An author has a new post that was not pushed."""
    index.entered(author_id)
    recents.changed(author_id)


async def _ranker(process: Process, settings: TimelineSettings, redis: Redis, post: PostClient) -> Ranker:
    """What ranks, with the features that it reads."""
    try:
        model = models.load(Path(settings.rank_model) if settings.rank_model else None)
    except models.ModelError as error:
        raise ConfigurationError(f"FEED_RANK_MODEL: {error}") from error
    logger.info("the ranked view is made by the model %s", model.version)
    features = Features(
        FeatureStore(
            redis,
            AuthorMemory(most=settings.rank_authors_remembered, seconds=settings.rank_author_seconds),
            signals_ms=settings.signals_hours * SECONDS_AN_HOUR * 1000,
        ),
        post.traits,
        patience_seconds=settings.rank_traits_seconds,
    )
    return Ranker(await process.enter(features), model, settings.weights, _rules(settings), time.time)


def _rules(settings: RankingSettings) -> Rules:
    """The rules of the ranked view."""
    return Rules(
        of_scores=(
            Seen(factor=settings.rank_seen_factor),
            Freshness(half_life_seconds=settings.rank_freshness_half_life_seconds, floor=settings.rank_freshness_floor),
            AuthorDiversity(decay=settings.rank_author_decay, floor=settings.rank_author_floor),
            TopicDiversity(decay=settings.rank_topic_decay, floor=settings.rank_topic_floor),
        ),
        hidden=Hidden(),
        guaranteed_places=GuaranteedPlaces(
            within=settings.rank_guaranteed_within,
            strong_ties=settings.rank_strong_ties,
            affinity=settings.rank_strong_tie_affinity,
        ),
        runs=Runs(most=settings.rank_run_length),
        head_share=HeadShare(share=settings.rank_head_share, window=settings.rank_head_window),
    )


def _inserter(settings: RankingSettings) -> Inserter | None:
    """What the house says, if anything."""
    if not settings.announcement_text:
        return None
    return Announcement(
        text=settings.announcement_text,
        label=settings.announcement_label,
        url=settings.announcement_url,
        slot=settings.announcement_slot,
        every=settings.announcement_every,
    )


class _Tally:
    """Counts reads, and what happens to ranked ones. See `views.Tally` and `ranked.Tally`."""

    def __init__(self) -> None:
        self._reads = telemetry.counter(
            "feed.timeline.reads", unit="{page}", description="Pages of timelines, by view."
        )
        self._fallbacks = telemetry.counter(
            "feed.timeline.unranked", unit="{page}", description="Pages of LATEST where RANKED was wanted, by obstacle."
        )
        self._expired = telemetry.counter(
            "feed.timeline.orders.expired",
            unit="{order}",
            description="Orders that were asked for when they were gone.",
        )

    def was_read(self, view: View, *, asked_for: bool) -> None:
        """See `views.Tally`."""
        self._reads.add(1, {"view": view.value, "by": "request" if asked_for else "choice"})

    def fell_back(self, obstacle: Obstacle) -> None:
        """See `ranked.Tally`."""
        self._fallbacks.add(1, {"obstacle": obstacle.value})

    def order_expired(self) -> None:
        """See `ranked.Tally`."""
        self._expired.add(1)


if __name__ == "__main__":
    main("timeline", TimelineSettings, run)
