"""`python -m post_service` serves, `... relay` publishes the outbox, `... migrate` brings the database up to date."""

import asyncio
from datetime import timedelta
from importlib.resources import files

import grpc.aio
from feed.outbox.v1 import outbox_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import outbox, outbox_relay, postgres, redis
from feedkit.channel import connect
from feedkit.invalidation import Invalidation
from feedkit.outbox import OutboxServicer
from feedkit.outbox_relay import RelaySettings
from feedkit.postgres import Database
from feedkit.server import Process, Role, main

from post_service import graph_client
from post_service.audience import Audience
from post_service.authors import Authors
from post_service.background import in_background
from post_service.cache_store import CacheStore
from post_service.config import PostSettings
from post_service.engagement import Engagements
from post_service.engagement_store import EngagementStore, OldFeedback
from post_service.erasure import Erasure
from post_service.erasure_store import ErasureStore
from post_service.impression_store import ImpressionStore, OldImpressions
from post_service.impressions import Impressions
from post_service.posts import Posts
from post_service.retention import purge
from post_service.rpc import PostServicer
from post_service.store import ExpiredKeys, PostStore
from post_service.worker_lease import Ids, Terms
from post_service.worker_store import WorkerStore

SERVICE = post_pb2.DESCRIPTOR.services_by_name["PostService"]
MIGRATIONS = files("post_service") / "migrations"
STRAGGLERS = timedelta(minutes=1)
"""How long what somebody begins who is taken for active is under way at most: longer than any deadline."""


async def run(process: Process, settings: PostSettings) -> None:
    """Serve until stopped."""
    database = await process.enter(postgres.database(settings))
    # Leases and readiness have connections of their own: requests that wait for the others must not make them lapse.
    upkeep = await process.enter(postgres.database(settings.model_copy(update={"postgres_pool_size": 2})))
    channel = await process.enter(connect(settings.graph_target, graph_client.SERVICE, "graph"))
    store = PostStore(
        database,
        key_lifetime=timedelta(hours=settings.idempotency_hours),
        key_wait_seconds=settings.idempotency_wait_seconds,
    )
    invalidation = await process.enter(Invalidation(await process.enter(redis.connect(settings))))
    caches = CacheStore(invalidation, settings.own_length)
    terms = Terms(
        lease_ms=int(settings.id_lease_seconds * 1000),
        max_skew_ms=int(settings.id_clock_skew_seconds * 1000),
        max_backward_ms=settings.id_backward_ms,
    )
    ids = Ids(WorkerStore(upkeep), terms)
    graph = graph_client.GraphClient(channel)
    authors = Authors(graph.standing, remember=settings.known_authors, seconds=settings.known_author_seconds)
    audience = Audience(store.author_of, graph.standing, graph.apart)
    erasure = Erasure(
        ErasureStore(database, timedelta(seconds=settings.known_author_seconds) + STRAGGLERS), caches, authors
    )
    servicer = PostServicer(
        Posts(store, caches, ids, authors, audience),
        Engagements(EngagementStore(database), authors, audience),
        Impressions(ImpressionStore(database), authors),
        erasure,
    )
    expired = purge("expired idempotency keys", ExpiredKeys(upkeep).remove, settings.idempotency_purge_seconds)
    await process.enter(in_background(expired))
    await process.enter(in_background(_retention(database, erasure, settings)))
    await process.enter(ids.kept())

    def register(server: grpc.aio.Server) -> None:
        post_pb2_grpc.add_PostServiceServicer_to_server(servicer, server)
        outbox_pb2_grpc.add_OutboxServiceServicer_to_server(OutboxServicer(database), server)

    await process.serve(
        settings,
        register,
        [SERVICE.full_name, outbox.SERVICE.full_name],
        ready=[postgres.migrated(upkeep, MIGRATIONS), ids.check],
    )


async def _retention(database: Database, erasure: Erasure, settings: PostSettings) -> None:
    """Remove what is kept for a time only, for ever."""
    every, days = settings.retention_seconds, settings.impression_days
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(purge("old impressions", OldImpressions(database, days).remove, every))
        tasks.create_task(purge("old feedback entries", OldFeedback(database, days).remove, every))
        tasks.create_task(purge("remains of deleted users", erasure.erase_once_more, every))


async def relay(process: Process, settings: RelaySettings) -> None:
    """Publish the outbox until stopped."""
    await outbox_relay.run(process, settings, MIGRATIONS)


async def migrate(settings: PostSettings) -> None:
    """Bring the database up to date."""
    await postgres.migrate(settings, MIGRATIONS)


if __name__ == "__main__":
    main("post", PostSettings, run, {"migrate": migrate}, {"relay": Role(RelaySettings, relay)})
