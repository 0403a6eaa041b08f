"""Settings of the service `fanout`."""

from feedkit.kafka import KafkaSettings
from feedkit.kafka_topics import TopicSettings
from feedkit.key_settings import (
    CelebritySettings,
    OwnSettings,
    RecentsSettings,
    SignalsSettings,
    TimelineLifeSettings,
)
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field, ValidationInfo, field_validator

MARGIN_DAYS = 2
"""Activity is written by the day, and a day's first read may be just before its end."""


class ConsumerSettings(KafkaSettings):
    """How records are consumed."""

    kafka_fetch_wait_ms: int = Field(
        default=10,
        ge=1,
        le=500,
        description="The longest that a broker which has nothing new lets a consumer wait for its answer. Some brokers "
        "answer no earlier, so it bounds how soon a post arrives.",
    )
    kafka_session_seconds: float = Field(
        default=6.0,
        ge=1,
        le=300,
        description="How long a consumer may be silent before its partitions are given to others; so long the work of a "
        "process that was killed stands still. Brokers take no less than 6 if they are not told to.",
    )
    fanout_event_batch: int = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many events are handled together at most. More cost less each; fewer let others go first sooner.",
    )


class CelebrityLineSettings(CelebritySettings):
    """How the celebrity line moves, and how authors come back who have become too small for it."""

    celebrity_floor: int = Field(
        default=1000,
        ge=1,
        description="How far down consumer lag moves the follower count from which authors are pulled. At or below this, "
        "`FEED_CELEBRITY_THRESHOLD` is never moved.",
    )
    lag_limit_seconds: float = Field(
        default=10.0,
        gt=0,
        description="While the oldest event that is not handled is older than this, the follower count from which authors "
        "are pulled is halved at each step.",
    )
    lag_clear_seconds: float = Field(
        default=2.0,
        gt=0,
        validate_default=True,
        description="While that age stays below this, the count returns, twofold at a time. Less than "
        "`FEED_LAG_LIMIT_SECONDS`; in between it stays as it is.",
    )
    lag_clear_for_seconds: float = Field(
        default=60.0, gt=0, description="How long lag has to stay away before each step of that return."
    )
    celebrity_step_seconds: float = Field(
        default=5.0, gt=0, description="How long the leader waits after each look at the lag."
    )
    leader_seconds: float = Field(
        default=3.0,
        ge=0.5,
        description="How long a leader of the `fanout` processes that died goes on being taken for one.",
    )
    celebrity_leave_ratio: float = Field(
        default=0.8,
        gt=0,
        lt=1,
        description="A pulled author with fewer followers than this part of the count in force is pushed again. The gap "
        "keeps authors from going to and fro.",
    )
    leaving_interval_seconds: float = Field(
        default=10.0, gt=0, description="How long the leader waits after each look for such authors."
    )
    leaving_timelines_per_second: float = Field(
        default=200.0,
        gt=0,
        description="To how many timelines a second such an author's posts are brought at most, as many posts to each as "
        "it holds.",
    )
    leaving_batch: int = Field(
        default=10, ge=1, le=1000, description="To how many timelines they are brought in one round trip."
    )

    @field_validator("lag_clear_seconds")
    @classmethod
    def _apart_from_the_limit(cls, seconds: float, info: ValidationInfo) -> float:
        limit = info.data.get("lag_limit_seconds")
        if limit is not None and seconds >= limit:
            raise ValueError(f"must be less than FEED_LAG_LIMIT_SECONDS, which is {limit:g}: the line would never rest")
        return seconds


class FeatureSettings(SignalsSettings):
    """What is kept of what people do with posts, for the ranked view."""

    engagement_batch: int = Field(
        default=200,
        ge=1,
        le=5000,
        description="How many engagement events are summed up and written together at most. More cost less each; fewer let "
        "posts be delivered in between.",
    )
    seen_length: int = Field(
        default=1000,
        ge=1,
        le=10_000,
        description="How many of the posts that a viewer has seen are remembered, 8 bytes each.",
    )
    affinity_authors: int = Field(
        default=500,
        ge=1,
        le=5000,
        description="For how many authors it is remembered how a viewer takes them, 12 bytes each. Of more, those are "
        "dropped who leave the viewer coolest.",
    )
    feature_days: int = Field(
        default=28,
        ge=1,
        le=3650,
        description="How long it is remembered what a viewer has seen and liked, and how an author is taken, since the "
        "last time. Of a deleted user nothing is noted for so long: longer than events may be late.",
    )


class FanoutSettings(
    GrpcServerSettings,
    ConsumerSettings,
    TopicSettings,
    RedisSettings,
    CelebrityLineSettings,
    OwnSettings,
    RecentsSettings,
    TimelineLifeSettings,
    FeatureSettings,
):
    """What `fanout` can be told."""

    graph_target: str = Field(default="dns:///graph:50051", description="The gRPC name of the service `graph`.")
    post_target: str = Field(default="dns:///post:50051", description="The gRPC name of the service `post`.")
    timeline_length: int = Field(
        default=800,
        ge=1,
        # One more is read, to know what is left out, and the pull query returns no more than 1,000.
        le=999,
        description="How many posts a home timeline holds at most, 16 bytes each. Whatever is older is pulled. It may be "
        "changed at any time.",
    )
    active_days: int = Field(
        default=30,
        ge=1 + MARGIN_DAYS,
        le=36500,
        validate_default=True,
        description="Posts are pushed to followers who were active within so many days.",
    )
    push_batch: int = Field(
        default=200,
        ge=1,
        le=10_000,
        description="How many timelines are pushed to in one round trip. Larger batches let reads of the same Redis wait.",
    )
    chunk_size: int = Field(
        default=1000,
        ge=1,
        le=10_000,
        description="A post for more active followers than this is delivered in chunks of so many, which all processes "
        "share.",
    )
    fanout_authors_at_once: int = Field(
        default=8, ge=1, le=100, description="How many authors' posts a process pushes at the same time."
    )
    reconciles_per_second: float = Field(
        default=200.0,
        gt=0,
        description="How many reconciles, rebuilds and slices of erasures a process begins in a second at most.",
    )
    reconcile_batch: int = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many wishes for reconciles and rebuilds are taken together, and de-duplicated, at most.",
    )
    reconciles_at_once: int = Field(
        default=8, ge=1, le=100, description="How many reconciles and rebuilds a process works on at the same time."
    )

    @field_validator("active_days")
    @classmethod
    def _longer_than_timelines_live(cls, days: int, info: ValidationInfo) -> int:
        lives = info.data.get("timeline_days")
        if lives is not None and days < lives + MARGIN_DAYS:
            raise ValueError(
                f"must be at least {MARGIN_DAYS} more than FEED_TIMELINE_DAYS, which is {lives}: timelines would live that "
                "are not pushed to"
            )
        return days
