"""Settings of the service `hydrate`."""

from feedkit.server import GrpcServerSettings
from pydantic import Field


class HydrateSettings(GrpcServerSettings):
    """What `hydrate` can be told."""

    post_target: str = Field(min_length=1, description="The gRPC name of the service `post`, `dns:///host:port`.")
    graph_target: str = Field(min_length=1, description="The gRPC name of the service `graph`, `dns:///host:port`.")
