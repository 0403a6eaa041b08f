"""The features of the ranked view in Redis, and the counts of posts, as far as handling an event changes them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from feedkit import feature_keys, key_scripts, keys
from feedkit.feature_keys import Sums
from feedkit.redis import Command, Redis

from fanout_service.config import FeatureSettings
from fanout_service.engagement_events import Observed, Tally

WORK_AT_ONCE = 2000
"""In one round trip: some tens of milliseconds of Redis, so that its answer comes in time, whatever people have done."""
_NOTHING = Sums()


class Step(NamedTuple):
    """A command, and how much work it is: how many posts or authors it touches."""

    command: Command
    work: int = 1


class FeatureStore:
    """Implements `engagement_events.Features`."""

    def __init__(self, redis: Redis, settings: FeatureSettings) -> None:
        self._redis = redis
        self._most_seen, self._most_authors = settings.seen_length, settings.affinity_authors
        self._signals_ms = settings.signals_hours * 3_600_000
        self._life_ms = settings.feature_days * 86_400_000

    async def observe(self, observed: Observed) -> None:
        """See `engagement_events.Features`."""
        for commands in round_trips(self._steps(observed), WORK_AT_ONCE):
            await self._redis.run(*commands)

    def _steps(self, observed: Observed) -> Iterator[Step]:
        # Counts first. The truth that they are read from has known of all this since before it was told, so any moment is
        # right for the leases of those who fill them in: who read earlier loses the lease, who reads later reads the new
        # ones. Being first they are forgotten even when something else fails, again and again.
        for post_id in observed.recounted:
            yield Step(key_scripts.forget(keys.counts(post_id)))
        for post_id, sums in _changed(observed.posts):
            yield Step(feature_keys.observe_post(post_id, observed.at, sums, self._signals_ms))
        for author_id, sums in _changed(observed.authors):
            yield Step(feature_keys.observe_author(author_id, observed.at, sums, self._life_ms))
        for viewer_id, tallies in observed.affinity.items():
            if scores := {author: score for author, tally in tallies.items() if (score := affinity(tally))}:
                command = feature_keys.observe_affinity(
                    viewer_id, observed.at, scores, self._most_authors, self._life_ms
                )
                yield Step(command, len(scores))
        for viewer_id, seen in observed.seen.items():
            newest = [-post_id if hidden else post_id for post_id, hidden in seen.items()][-self._most_seen :]
            yield Step(feature_keys.observe_seen(viewer_id, newest, self._most_seen, self._life_ms), len(newest))


def round_trips(steps: Iterable[Step], most: int) -> Iterator[list[Command]]:
    """The commands in order, with no more work together than `most`, unless one alone is more."""
    commands: list[Command] = []
    together = 0
    for step in steps:
        if commands and together + step.work > most:
            yield commands
            commands, together = [], 0
        commands.append(step.command)
        together += step.work
    if commands:
        yield commands


def _changed(tallies: Mapping[int, Tally]) -> Iterable[tuple[int, Sums]]:
    """Those that do not come to nothing."""
    return ((some_id, added) for some_id, tally in tallies.items() if (added := sums(tally)) != _NOTHING)


def sums(tally: Tally) -> Sums:
    """What is added to the signals of a post, or of an author."""
    return Sums(
        tally.impressions,
        tally.likes,
        tally.reposts,
        tally.replies,
        tally.dwell_seconds,
        tally.less + tally.hides,
    )


def affinity(tally: Tally) -> float:
    """What is added to the affinity to an author."""
    return (
        tally.likes * feature_keys.AFFINITY_OF_LIKE
        + tally.replies * feature_keys.AFFINITY_OF_REPLY
        + tally.reposts * feature_keys.AFFINITY_OF_REPOST
        + tally.dwelt * feature_keys.AFFINITY_OF_DWELL
        + tally.less * feature_keys.AFFINITY_OF_LESS
        + tally.hides * feature_keys.AFFINITY_OF_HIDE
    )
