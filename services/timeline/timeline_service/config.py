"""Settings of the service `timeline`."""

from feedkit.key_settings import (
    CacheSettings,
    CelebritySettings,
    OwnSettings,
    RecentsSettings,
    SignalsSettings,
    TimelineLifeSettings,
)
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field, ValidationInfo, field_validator


class RankingSettings(SignalsSettings):
    """How the ranked view is made."""

    candidates: int = Field(
        default=400, ge=1, le=1000, description="How many of the newest posts of a home timeline are ranked."
    )
    rank_model: str = Field(
        default="",
        description="The file of the model that predicts what viewers will do, as `feedctl rank train` writes it. Empty: "
        "the baseline, which nobody trained.",
    )
    rank_weight_like: float = Field(default=1.0, description="What a predicted like adds to the score of a post.")
    rank_weight_reply: float = Field(default=3.0, description="What a predicted reply adds.")
    rank_weight_repost: float = Field(default=2.0, description="What a predicted repost adds.")
    rank_weight_dwell: float = Field(
        default=0.3, description="What it adds that the viewer is predicted to dwell on it."
    )
    rank_weight_negative: float = Field(
        default=-10.0,
        description="What it adds that the viewer is predicted to want less like it, or to hide it: below 0. With all "
        "five weights 0 the ranked view is LATEST.",
    )
    rank_seen_factor: float = Field(
        default=0.3, gt=0, le=1, description="By which the score of a post counts that the viewer has seen lately."
    )
    rank_freshness_half_life_seconds: float = Field(
        default=6 * 3600.0, gt=0, description="After how long a post's score counts half, beside that of the newest."
    )
    rank_freshness_floor: float = Field(
        default=0.2, gt=0, le=1, description="What is left of the score of an old post. 1: freshness does not count."
    )
    rank_author_decay: float = Field(
        default=0.7,
        gt=0,
        le=1,
        description="By which the score of an author's second post counts; its square is that of the third, and so on. 1: "
        "all count the same.",
    )
    rank_author_floor: float = Field(default=0.2, gt=0, le=1, description="The least that this comes to.")
    rank_topic_decay: float = Field(
        default=0.85, gt=0, le=1, description="The same for the second post about a topic, which is a hashtag."
    )
    rank_topic_floor: float = Field(default=0.4, gt=0, le=1, description="The least that this comes to.")
    rank_guaranteed_within: int = Field(
        default=20,
        ge=1,
        description="Within how many places from the top favourites, and those to whom the viewer has the strongest ties, "
        "have at least one post.",
    )
    rank_strong_ties: int = Field(
        default=5, ge=0, description="How many authors at most are guaranteed a place who are no favourites."
    )
    rank_strong_tie_affinity: float = Field(
        default=6.0,
        ge=0,
        description="Above which affinity an author is a strong tie: a like adds 1, a reply 3, a repost 2, dwelling 0.5; "
        "all fade by half in 14 days.",
    )
    rank_run_length: int = Field(
        default=2,
        ge=2,
        description="How many posts in a row an author may have, as long as there are others to put between.",
    )
    rank_head_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Which part of the places the largest accounts, whose posts are pulled, may have in each window, as "
        "long as there are others. 1: all.",
    )
    rank_head_window: int = Field(
        default=20,
        ge=1,
        validate_default=True,
        description="How many places in a row are such a window. At least `FEED_RANK_GUARANTEED_WITHIN`.",
    )
    rank_traits_seconds: float = Field(
        default=0.05,
        gt=0,
        description="How long a ranked read waits for `post` to tell what posts are like of which nobody told yet; without "
        "an answer they are ranked without.",
    )
    rank_author_seconds: float = Field(
        default=30.0,
        ge=0,
        description="How long a process ranks by what it has read of how people take what an author writes.",
    )
    rank_authors_remembered: int = Field(
        default=50_000, gt=0, description="Of how many authors it remembers that; 200 bytes each."
    )
    ranked_seconds: float = Field(
        default=600.0,
        ge=1,
        le=86_400,
        description="How long a viewer's orders are kept since the latest one was made. A walk that goes on later begins "
        "again.",
    )
    ranked_orders: int = Field(
        default=3,
        ge=1,
        le=100,
        description="How many orders are kept of a viewer: so many walks at the same time go on.",
    )
    announcement_text: str = Field(
        default="", description="What the house says between the posts of the ranked view. Empty: nothing."
    )
    announcement_label: str = Field(
        default="Announcement", min_length=1, description="How that is labelled, for the reader to see."
    )
    announcement_url: str = Field(default="", description="Where it leads. Empty: nowhere.")
    announcement_slot: int = Field(
        default=3, ge=0, description="Before which post of a walk it stands first. 0: at the very top."
    )
    announcement_every: int = Field(default=0, ge=0, description="After how many posts it is said again. 0: never.")

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each signal, in the order of `feedrank.signals.PREDICTED`."""
        return (
            self.rank_weight_like,
            self.rank_weight_reply,
            self.rank_weight_repost,
            self.rank_weight_dwell,
            self.rank_weight_negative,
        )

    @field_validator("rank_head_window")
    @classmethod
    def _not_within_the_guaranteed(cls, window: int, info: ValidationInfo) -> int:
        within = info.data.get("rank_guaranteed_within")
        if within is not None and window < within:
            raise ValueError(f"must be at least FEED_RANK_GUARANTEED_WITHIN, which is {within}")
        return window


class TimelineSettings(
    RankingSettings,
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
    redis_read_replicas: bool = Field(
        default=False,
        description="Whether the recents of pulled authors, which many read, are read from replicas of a Redis Cluster "
        "that are in step with their primaries. Half of `FEED_PULLED_STALENESS_SECONDS` is then for how far they may be "
        "behind. Nothing else is ever read from replicas.",
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
