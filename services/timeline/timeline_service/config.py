"""Settings of the service `timeline`."""

from feedkit.server import GrpcServerSettings
from pydantic import Field


class TimelineSettings(GrpcServerSettings):
    """What `timeline` can be told."""

    graph_target: str = Field(default="dns:///graph:50051", description="The gRPC name of the service `graph`.")
    post_target: str = Field(default="dns:///post:50051", description="The gRPC name of the service `post`.")
    hydrate_target: str = Field(default="dns:///hydrate:50051", description="The gRPC name of the service `hydrate`.")
    timeline_hydration_rounds: int = Field(
        default=8,
        gt=0,
        description="How many times at most one page is hydrated, because posts were withheld, before it is returned "
        "short.",
    )
    timeline_activity_remembered: int = Field(
        default=200_000,
        gt=0,
        description="How many viewers a process keeps in mind whose activity it has reported today; 100 bytes each.",
    )
