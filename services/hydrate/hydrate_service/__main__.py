"""The process `hydrate`: `python -m hydrate_service`."""

from collections.abc import Callable
from functools import partial

from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2
from feedkit import channel, deadline, redis, telemetry
from feedkit.server import Process, main, once

from hydrate_service.cache_store import AuthorLeases, CacheStore, CountsLeases, HidesLeases, PostLeases
from hydrate_service.config import HydrateSettings
from hydrate_service.graph_client import GraphClient
from hydrate_service.hydration import Hydrator
from hydrate_service.post_client import PostClient
from hydrate_service.rpc import HydrateServicer
from hydrate_service.truth import SharedReads
from hydrate_service.visibility import Surface, Withheld

SERVICE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
POST = post_pb2.DESCRIPTOR.services_by_name["PostService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
VIEWERS_AT_ONCE = 20
"""How many viewers' hides are read together: `graph` is asked for each."""


async def run(process: Process, settings: HydrateSettings) -> None:
    """Serve until the process is stopped."""
    to_post = await process.enter(channel.connect(settings.post_target, POST, "post"))
    to_graph = await process.enter(channel.connect(settings.graph_target, GRAPH, "graph"))
    cache = await process.enter(redis.connect(settings))
    await redis.report_settings(cache)
    patience = partial(deadline.timeout_for_call, channel.CALL_SECONDS)
    for_counts = partial(deadline.timeout_for_call, settings.counts_seconds)
    life = settings.cache_seconds
    post, graph = PostClient(to_post), GraphClient(to_graph)
    posts = await process.enter(SharedReads(post.load, PostLeases(cache, life), patience))
    counts = await process.enter(SharedReads(post.counts, CountsLeases(cache, life), for_counts))
    authors = await process.enter(SharedReads(graph.authors, AuthorLeases(cache, life), patience))
    hides = await process.enter(SharedReads(graph.hides, HidesLeases(cache, life), patience, most=VIEWERS_AT_ONCE))
    hydrator = Hydrator(CacheStore(cache), posts, authors, hides, graph, counts=counts, note_withheld=_noted())
    servicer = HydrateServicer(hydrator)
    await process.serve(
        settings,
        lambda server: hydrate_pb2_grpc.add_HydrateServiceServicer_to_server(servicer, server),
        [SERVICE.full_name],
        ready=[once(to_post.require_serving), once(to_graph.require_serving)],
    )


def _noted() -> Callable[[Withheld, Surface], None]:
    """Counts what is withheld, by reason and surface."""
    counter = telemetry.counter(
        "feed.hydrate.withheld", unit="{post}", description="Posts that were asked for and not shown to their viewer."
    )
    return lambda reason, surface: counter.add(1, {"reason": reason.name.lower(), "surface": surface.value})


if __name__ == "__main__":
    main("hydrate", HydrateSettings, run)
