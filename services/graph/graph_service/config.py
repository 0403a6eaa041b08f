"""The settings of `graph`."""

from feedkit.postgres import PostgresSettings
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field


class GraphSettings(GrpcServerSettings, PostgresSettings, RedisSettings):
    """What `graph` can be told."""

    following_limit: int = Field(
        default=5000,
        gt=0,
        # The contracts of the pull query and of the viewer's context hold no more.
        le=5000,
        description="How many users one user may follow. Follows that stand already stay when it is lowered.",
    )
