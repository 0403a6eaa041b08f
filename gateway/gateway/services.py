"""The services behind the gateway: channels, stubs, and whether they are ready."""

from dataclasses import dataclass

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feed.timeline.v1 import timeline_pb2, timeline_pb2_grpc
from feedkit.channel import connect
from feedkit.server import Check, Process, once
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor

from gateway.config import GatewaySettings


@dataclass(frozen=True)
class Services:
    """The stubs that the routes call; a failed call raises FeedError."""

    post: "post_pb2_grpc.PostServiceAsyncStub"
    graph: "graph_pb2_grpc.GraphServiceAsyncStub"
    timeline: "timeline_pb2_grpc.TimelineServiceAsyncStub"
    hydrate: "hydrate_pb2_grpc.HydrateServiceAsyncStub"


async def open_services(process: Process, settings: GatewaySettings) -> tuple[Services, list[Check]]:
    """Open the channels, for the life of the process; also returns the checks that all four were once ready."""
    # Every post is created with an idempotency key, so that a retry does not make a second one.
    post = await process.enter(
        connect(settings.post_target, _declared(post_pb2.DESCRIPTOR, "PostService"), "post", retry_also=["CreatePost"])
    )
    graph = await process.enter(
        connect(settings.graph_target, _declared(graph_pb2.DESCRIPTOR, "GraphService"), "graph")
    )
    timeline = await process.enter(
        connect(settings.timeline_target, _declared(timeline_pb2.DESCRIPTOR, "TimelineService"), "timeline")
    )
    hydrate = await process.enter(
        connect(settings.hydrate_target, _declared(hydrate_pb2.DESCRIPTOR, "HydrateService"), "hydrate")
    )
    services = Services(
        post_pb2_grpc.PostServiceStub(post),
        graph_pb2_grpc.GraphServiceStub(graph),
        timeline_pb2_grpc.TimelineServiceStub(timeline),
        hydrate_pb2_grpc.HydrateServiceStub(hydrate),
    )
    return services, [once(channel.require_serving) for channel in (post, graph, timeline, hydrate)]


def _declared(file: FileDescriptor, name: str) -> ServiceDescriptor:
    return file.services_by_name[name]
