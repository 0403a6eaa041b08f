"""Settings of the service `hydrate`."""

from feedkit.key_settings import CacheSettings
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field


class HydrateSettings(GrpcServerSettings, RedisSettings, CacheSettings):
    """What `hydrate` can be told."""

    post_target: str = Field(default="dns:///post:50051", description="The gRPC name of the service `post`.")
    graph_target: str = Field(default="dns:///graph:50051", description="The gRPC name of the service `graph`.")
    counts_seconds: float = Field(
        default=0.5,
        gt=0,
        description="The longest that an answer waits for counts that are not cached, in seconds. Posts are then shown "
        "without, and the counts are cached when they come.",
    )
