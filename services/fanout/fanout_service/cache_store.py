"""Cached copies of the truth in Redis, as far as handling an event deletes them or adds to them."""

from collections.abc import Collection, Sequence

from feedkit import key_scripts, keys
from feedkit.redis import Command, Redis

from fanout_service.events import PostEvent


class CacheStore:
    """Implements `post_events.CachedPosts` and `follow_events.Contexts`."""

    def __init__(self, redis: Redis, *, own_length: int) -> None:
        """`own_length` is the most posts that are kept of an author for their own timeline."""
        self._redis = redis
        self._own_length = own_length

    async def posts_changed(self, events: Sequence[PostEvent]) -> None:
        """See `post_events.CachedPosts`."""
        bodies = [key_scripts.forget(keys.post(event.post_id)) for event in events]
        own = [
            key_scripts.add_to_list(keys.own(event.author_id), event.post_id, self._own_length)
            for event in events
            if not event.deleted
        ]
        await self._redis.run(*bodies, *own)

    async def contexts_changed(self, viewer_ids: Collection[int]) -> Collection[int]:
        """See `follow_events.Contexts`."""
        contexts = [key_scripts.forget(keys.context(viewer_id)) for viewer_id in viewer_ids]
        timelines: list[Command] = [("EXISTS", keys.timeline(viewer_id)) for viewer_id in viewer_ids]
        answers = await self._redis.run(*contexts, *timelines)
        return {viewer_id for viewer_id, exists in zip(viewer_ids, answers[len(contexts) :], strict=True) if exists}
