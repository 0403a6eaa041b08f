"""The process `timeline`: `python -m timeline_service`."""

import time

from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit.channel import connect
from feedkit.server import Process, main, once

from timeline_service.activity import Activity
from timeline_service.config import TimelineSettings
from timeline_service.graph_client import GraphClient
from timeline_service.hydrate_client import HydrateClient
from timeline_service.mix import Mix
from timeline_service.post_client import PostClient
from timeline_service.pull_source import PullSource
from timeline_service.rpc import TimelineServicer

SERVICE = timeline_pb2.DESCRIPTOR.services_by_name["TimelineService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
POST = post_pb2.DESCRIPTOR.services_by_name["PostService"]
HYDRATE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]


async def run(process: Process, settings: TimelineSettings) -> None:
    """Serve until the process is stopped."""
    to_graph = await process.enter(connect(settings.graph_target, GRAPH, "graph"))
    to_post = await process.enter(connect(settings.post_target, POST, "post"))
    to_hydrate = await process.enter(connect(settings.hydrate_target, HYDRATE, "hydrate"))

    graph, post = GraphClient(to_graph), PostClient(to_post)
    activity = await process.enter(
        Activity(graph.record_activity, time.time, remembered=settings.timeline_activity_remembered)
    )
    mix = Mix(
        lambda viewer: [PullSource(post, viewer.authors)],
        HydrateClient(to_hydrate),
        hydration_rounds=settings.timeline_hydration_rounds,
    )
    servicer = TimelineServicer(graph, mix, activity)
    await process.serve(
        settings,
        lambda server: timeline_pb2_grpc.add_TimelineServiceServicer_to_server(servicer, server),
        [SERVICE.full_name],
        ready=[once(to_graph.require_serving), once(to_post.require_serving), once(to_hydrate.require_serving)],
    )


if __name__ == "__main__":
    main("timeline", TimelineSettings, run)
