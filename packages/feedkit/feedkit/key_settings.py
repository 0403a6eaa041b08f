"""Settings of Redis keys that several services write or read, and about which they have to agree."""

from pydantic import Field

from feedkit.config import Settings


class CelebritySettings(Settings):
    """For those who have to know which authors are pulled."""

    celebrity_threshold: int = Field(
        default=10_000,
        ge=0,
        description="The follower count from which an author's posts are pulled when read instead of pushed when written. "
        "0: everything is pulled from PostgreSQL, and neither Kafka nor `fanout` is needed.",
    )
    pulled_staleness_seconds: float = Field(
        default=2.0,
        gt=0,
        description="The longest that a timeline may not know of a pulled author, or of a pulled author's new post. "
        "`fanout` announces both; this is for announcements that are lost.",
    )


class OwnSettings(Settings):
    """For those who write authors' own recents."""

    own_length: int = Field(
        default=50, ge=1, le=1000, description="How many of their own posts are kept for an author."
    )


class RecentsSettings(Settings):
    """For those who write the recents of pulled authors."""

    recents_length: int = Field(
        default=200, ge=1, le=1000, description="How many posts are kept of a pulled author for those who follow them."
    )


class CacheSettings(Settings):
    """For those who fill in cached values."""

    cache_seconds: float = Field(
        default=900.0,
        gt=0,
        description="How long a cached value lives. Minutes, not days: a failover of Redis may bring back an older one.",
    )


class TimelineLifeSettings(Settings):
    """For those who give a home timeline its life."""

    timeline_days: int = Field(
        default=28,
        ge=1,
        description="How long a home timeline lives after a day on which it was read. At least 2 less than "
        "`FEED_ACTIVE_DAYS`, or viewers would not be pushed to whose timelines still live.",
    )


class SignalsSettings(Settings):
    """For those who write down what is known of posts for the ranked view."""

    signals_hours: int = Field(
        default=72,
        ge=1,
        le=8760,
        description="How long it is kept what a post is like and what people did with it, since the last time that "
        "somebody did something. The ranked view knows nothing of a post then; counts that are shown do not depend on it.",
    )
