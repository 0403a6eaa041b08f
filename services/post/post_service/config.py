"""The settings of this service."""

from feedkit.key_settings import OwnSettings
from feedkit.postgres import PostgresSettings
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field


class PostSettings(GrpcServerSettings, PostgresSettings, RedisSettings, OwnSettings):
    """What the service post can be told."""

    graph_target: str = Field(default="dns:///graph:50051", description="The gRPC name of the service `graph`.")
    known_authors: int = Field(
        default=100_000,
        gt=0,
        description="How many authors a process remembers to be there and not suspended (about 100 bytes each).",
    )
    known_author_seconds: float = Field(
        default=10.0,
        ge=0,
        description="How long an author is remembered. So long one goes on posting while graph is away, and at the most so "
        "long after the account was suspended or deleted.",
    )
    idempotency_hours: float = Field(default=24.0, gt=0, description="How long an idempotency key is remembered.")
    idempotency_wait_seconds: float = Field(
        default=4.0,
        gt=0,
        description="The longest that a retry waits for the first request with its idempotency key to end. Less than "
        "`FEED_POSTGRES_STATEMENT_SECONDS`; a shorter deadline shortens it.",
    )
    idempotency_purge_seconds: float = Field(
        default=60.0, gt=0, description="How often expired idempotency keys are removed."
    )
    impression_days: int = Field(
        default=30,
        gt=0,
        description="For how many days impressions and feedback are kept, for training. Likes, reposts and replies stay.",
    )
    retention_seconds: float = Field(
        default=60.0,
        gt=0,
        description="How often impressions and feedback that are too old are removed, and what users left who were deleted "
        "a while ago is looked for once more.",
    )
    id_lease_seconds: float = Field(
        default=15.0,
        ge=1,
        le=3600,
        description="How long a worker number is leased. It is renewed after a third of this; a process that was killed "
        "keeps its number from others for this long.",
    )
    id_clock_skew_seconds: float = Field(
        default=5.0,
        gt=0,
        description="How far the clock may differ from the database's. Beyond it the process makes no ids and is not "
        "ready.",
    )
    id_backward_ms: int = Field(
        default=100,
        ge=0,
        description="The largest backward step of the clock that is waited out. After a larger one the process makes no "
        "ids and is not ready until the clock has caught up.",
    )
