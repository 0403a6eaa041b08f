"""Home timelines, contexts and authors' lists in Redis. The layout of the keys is told in `feedkit.keys`."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from feedkit import key_scripts, keys
from feedkit.errors import Unavailable
from feedkit.redis import Command, Redis
from redis.exceptions import ResponseError

from timeline_service.author_posts import AuthorPosts
from timeline_service.homes import Glance
from timeline_service.materialised import Materialised
from timeline_service.viewer import Context

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


class HomeStore:
    """See `homes.HomeStore` and `contexts.ContextStore`."""

    def __init__(self, redis: Redis, *, cache_ms: int, timeline_ms: int) -> None:
        """Contexts live `cache_ms`, timelines `timeline_ms` from a day on which they were read."""
        self._redis = redis
        self._cache_ms = cache_ms
        self._timeline_ms = timeline_ms

    async def glance(self, viewer_id: int, newest: int | None) -> Glance:
        """See `homes.HomeStore`."""
        context, timeline, own = await answers(
            self._redis,
            key_scripts.get(keys.context(viewer_id)),
            key_scripts.read_whole_timeline(viewer_id)
            if newest is None
            else key_scripts.read_timeline(viewer_id, newest),
            key_scripts.get(keys.own(viewer_id)),
        )
        return Glance(decoded_context(context), _timeline(timeline, newest), _author_posts(own))

    async def context(self, viewer_id: int) -> Context | None:
        """See `homes.HomeStore`."""
        (context,) = await answers(self._redis, key_scripts.get(keys.context(viewer_id)))
        return decoded_context(context)

    async def whole_timeline(self, viewer_id: int) -> Materialised | None:
        """See `homes.HomeStore`."""
        (timeline,) = await answers(self._redis, key_scripts.read_whole_timeline(viewer_id))
        return _timeline(timeline, None)

    async def keep_timeline(self, viewer_id: int) -> None:
        """Let a timeline live on, if it is there."""
        await self._redis.run(key_scripts.keep_timeline(viewer_id, self._timeline_ms))

    async def lease_context(self, viewer_id: int) -> bytes | None:
        """See `contexts.ContextStore`."""
        token = key_scripts.new_token()
        (taken,) = await self._redis.run(key_scripts.take_lease(keys.context(viewer_id), token))
        return None if taken is None else token

    async def fill_context(self, viewer_id: int, lease: bytes, context: Context) -> None:
        """See `contexts.ContextStore`."""
        payload = keys.encode_context(keys.Context(*context))
        await self._redis.run(key_scripts.fill(keys.context(viewer_id), lease, payload, self._cache_ms))


class ListStore:
    """Authors' lists of one kind. See `author_posts.ListStore`."""

    def __init__(self, redis: Redis, key: Callable[[int], str], *, cache_ms: int, age: float = 0) -> None:
        """`key` is `keys.own` or `keys.recents`; lists live `cache_ms`.

        `age`: how many seconds a list that is got may be behind. Such a list is right nevertheless, as one is that was
        got so long ago and remembered since: above its horizon it lacks nothing but what was written meanwhile, and what
        it has too much is withheld by hydration, or left out for whom the viewer does not follow. Leases and fills are
        never behind.
        """
        self._redis = redis
        self._key = key
        self._cache_ms = cache_ms
        self._age = age

    async def get(self, author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        """See `author_posts.ListStore`."""
        command = key_scripts.get_many(map(self._key, author_ids))
        (values,) = await (self._redis.read(command, age=self._age) if self._age else self._redis.run(command))
        lists = zip(author_ids, map(_author_posts, values), strict=True)
        return {author_id: posts for author_id, posts in lists if posts is not None}

    async def lease(self, author_ids: Sequence[int]) -> Mapping[int, bytes]:
        """See `author_posts.ListStore`."""
        tokens = {author_id: key_scripts.new_token() for author_id in author_ids}
        commands = [key_scripts.take_lease(self._key(author_id), token) for author_id, token in tokens.items()]
        taken = await self._redis.run(*commands)
        return {author_id: tokens[author_id] for author_id, answer in zip(tokens, taken, strict=True) if answer}

    async def fill(self, leases: Mapping[int, bytes], lists: Mapping[int, AuthorPosts]) -> None:
        """See `author_posts.ListStore`."""
        commands = [
            key_scripts.fill(
                self._key(author_id),
                leases[author_id],
                keys.encode_post_list(posts.post_ids[::-1], posts.horizon),
                self._cache_ms,
            )
            for author_id, posts in lists.items()
        ]
        await self._redis.run(*commands)


async def answers(redis: Redis, *commands: Command) -> list[Any]:
    """The answers to some commands, in one round trip; Unavailable where a key is not of the type that it has to be."""
    try:
        return await redis.run(*commands)
    except ResponseError as error:
        # That is somebody's mistake, which is not to cost the viewer the answer.
        logger.exception("a key in Redis was not written by us")
        raise Unavailable.of_dependency("redis", "holds what was not written by us") from error


def announcements(
    redis: Redis, pulled: Callable[[int], None], missed: Callable[[], None]
) -> AbstractAsyncContextManager[None]:
    """Listen to `fanout`: `pulled` is told of each author who has a new post that was not pushed.

    `missed` is called whenever announcements may have been missed.
    """
    return redis.subscribed(keys.RECENTS_CHANGED, lambda message: pulled(keys.decode_id(message)), missed)


def decoded_context(raw: bytes | None) -> Context | None:
    """The context in a value of `ctx`; None where there is none, or something else."""
    payload = keys.payload(raw)
    context = None if payload is None else _decoded(keys.decode_context, payload)
    return None if context is None else Context(*context)


def _author_posts(raw: bytes | None) -> AuthorPosts | None:
    payload = keys.payload(raw)
    posts = None if payload is None else _decoded(keys.decode_post_list, payload)
    return None if posts is None else AuthorPosts.of(*posts)


def _decoded(decode: Callable[[bytes], Value], payload: bytes) -> Value | None:
    try:
        return decode(payload)
    except keys.Undecodable as error:
        logger.warning("a value in Redis was not written by us: %s", error)
        return None


def _timeline(raw: bytes, newest: int | None) -> Materialised | None:
    tail = keys.decode_timeline(raw)
    if tail is None:
        return None
    return Materialised(tail, tail.trailer.horizon, whole=newest is None or tail.length < newest)
