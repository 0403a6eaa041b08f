"""Cached copies of the truth in Redis, as far as handling an event deletes them or adds to them."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from feedkit import feature_keys, key_scripts, keys
from feedkit.redis import Command, Redis

from fanout_service.events import PostChange, PostEvent


class Lengths(NamedTuple):
    """The most posts that are kept of an author."""

    own: int
    """For the author's own timeline."""
    recents: int
    """For everybody who follows an author who is pulled."""


class CacheStore:
    """Implements `post_events.CachedPosts`, `graph_events.CachedEdges` and `account_events.CachedUsers`."""

    def __init__(self, redis: Redis, lengths: Lengths, *, feature_days: int) -> None:
        """`feature_days`: how long no features are noted of a deleted user."""
        self._redis = redis
        self._lengths = lengths
        self._ended_ms = feature_days * 86_400_000

    async def posts_changed(self, events: Sequence[PostEvent]) -> None:
        """See `post_events.CachedPosts`."""
        shortened = {event.author_id for event in events if event.change is PostChange.DELETED}
        stale = [keys.post(event.post_id) for event in events]
        stale += [key for author_id in shortened for key in (keys.own(author_id), keys.recents(author_id))]
        written = [event for event in events if event.change is PostChange.WRITTEN]
        await self._redis.run(
            *map(key_scripts.forget, stale), *[command for event in written for command in self._additions(event)]
        )

    def _additions(self, event: PostEvent) -> Sequence[Command]:
        # To the recents of those who are pushed too: who is pulled later, or again, must not have a list with a hole.
        return (
            key_scripts.add_to_list(keys.own(event.author_id), event.post_id, self._lengths.own),
            key_scripts.add_to_list(keys.recents(event.author_id), event.post_id, self._lengths.recents),
        )

    async def edges_changed(self, contexts: Collection[int], hidden: Collection[int]) -> Collection[int]:
        """See `graph_events.CachedEdges`."""
        stale = [*map(keys.context, contexts), *map(keys.hidden, hidden)]
        timelines: list[Command] = [("EXISTS", keys.timeline(viewer_id)) for viewer_id in contexts]
        answers = await self._redis.run(*map(key_scripts.forget, stale), *timelines)
        return {viewer_id for viewer_id, exists in zip(contexts, answers[len(stale) :], strict=True) if exists}

    async def standings_changed(self, user_ids: Collection[int]) -> None:
        """See `account_events.CachedUsers`."""
        await self._redis.run(*[key_scripts.forget(keys.user(user_id)) for user_id in user_ids])

    async def users_deleted(self, user_ids: Collection[int]) -> None:
        """See `account_events.CachedUsers`."""
        cached = (keys.user, keys.context, keys.hidden, keys.own, keys.recents)
        await self._redis.run(
            *[key_scripts.forget(key(user_id)) for user_id in user_ids for key in cached],
            *map(key_scripts.delete_timeline, user_ids),
            *[command for user_id in user_ids for command in feature_keys.end(user_id, self._ended_ms)],
        )
