"""Settings of the service `timeline`."""

from feedkit.key_settings import (
    CacheSettings,
    CelebritySettings,
    OwnSettings,
    RecentsSettings,
    TimelineLifeSettings,
)
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field


class TimelineSettings(
    GrpcServerSettings,
    RedisSettings,
    CelebritySettings,
    OwnSettings,
    RecentsSettings,
    CacheSettings,
    TimelineLifeSettings,
):
    """What `timeline` can be told."""

    graph_target: str = Field(default="dns:///graph:50051", description="The gRPC name of the service `graph`.")
    post_target: str = Field(default="dns:///post:50051", description="The gRPC name of the service `post`.")
    hydrate_target: str = Field(default="dns:///hydrate:50051", description="The gRPC name of the service `hydrate`.")
    fanout_target: str = Field(default="dns:///fanout:50051", description="The gRPC name of the service `fanout`.")
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
    timeline_recents_remembered: int = Field(
        default=10_000,
        gt=0,
        description="How many pulled authors' recents a process keeps in memory at the same time; "
        "8 bytes a post of each.",
    )
    timeline_rebuild_pause_seconds: float = Field(
        default=5.0,
        ge=0,
        description="How long a process, having asked for a viewer's timeline to be rebuilt, does not ask again.",
    )
