"""The cache of posts and of names, in Redis: `post` and `user` in `feedkit.keys`, which hydrate alone fills in."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from feed.graph.v1 import graph_pb2
from feed.post.v1 import post_pb2
from feedkit import key_scripts, keys
from feedkit.cursor import created_at_ms
from feedkit.redis import Redis
from google.protobuf.message import DecodeError

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

SETTLED_MS = 60_000
"""How old an id must be for its absence to be remembered. Ids can be guessed before they are given to a post, so a younger
one may still be written; a minute is more than clocks differ and commits take."""


class CacheStore:
    """Reads whatever there is in one round trip."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def read(
        self, post_ids: Sequence[int], author_ids: Sequence[int]
    ) -> tuple[dict[int, post_pb2.Post | None], dict[int, str | None]]:
        """See `hydration.Cache`."""
        wanted = [*map(keys.post, post_ids), *map(keys.user, author_ids)]
        (values,) = await self._redis.run(key_scripts.get_many(wanted))
        payloads = list(map(keys.payload, values))
        posts = _decoded(zip(post_ids, payloads, strict=False), _post)
        names = _decoded(zip(author_ids, payloads[len(post_ids) :], strict=True), _name)
        return posts, names


class PostLeases:
    """Fills in posts, and that there is none. See `truth.Leases`."""

    def __init__(self, redis: Redis, life_seconds: float) -> None:
        self._redis = redis
        self._life_ms = int(life_seconds * 1000)

    async def take(self, ids: Collection[int]) -> Mapping[int, bytes]:
        """Take the leases that are free."""
        return await _take(self._redis, {post_id: keys.post(post_id) for post_id in ids})

    async def fill(self, tokens: Mapping[int, bytes], found: Mapping[int, post_pb2.Post]) -> None:
        """Fill in what was found, and the absence of what was not."""
        settled = time.time() * 1000 - SETTLED_MS
        await self._redis.run(
            *(
                key_scripts.fill(keys.post(post_id), token, _post_payload(found.get(post_id)), self._life_ms)
                for post_id, token in tokens.items()
                if post_id in found or created_at_ms(post_id) < settled
            )
        )


class NameLeases:
    """Fills in names. That there is nobody is not remembered: their id may be somebody's soon. See `truth.Leases`."""

    def __init__(self, redis: Redis, life_seconds: float) -> None:
        self._redis = redis
        self._life_ms = int(life_seconds * 1000)

    async def take(self, ids: Collection[int]) -> Mapping[int, bytes]:
        """Take the leases that are free."""
        return await _take(self._redis, {user_id: keys.user(user_id) for user_id in ids})

    async def fill(self, tokens: Mapping[int, bytes], found: Mapping[int, str]) -> None:
        """Fill in what was found."""
        await self._redis.run(
            *(
                key_scripts.fill(keys.user(user_id), token, _name_payload(user_id, found[user_id]), self._life_ms)
                for user_id, token in tokens.items()
                if user_id in found
            )
        )


async def _take(redis: Redis, wanted: Mapping[int, str]) -> Mapping[int, bytes]:
    tokens = {some_id: key_scripts.new_token() for some_id in wanted}
    answers = await redis.run(*(key_scripts.take_lease(key, tokens[some_id]) for some_id, key in wanted.items()))
    return {some_id: tokens[some_id] for some_id, taken in zip(wanted, answers, strict=True) if taken}


def _decoded(
    payloads: Iterable[tuple[int, bytes | None]], decode: Callable[[bytes], Value | None]
) -> dict[int, Value | None]:
    """What is known, by id. A value that was not written by us tells nothing."""
    known: dict[int, Value | None] = {}
    for some_id, payload in payloads:
        if payload is not None:
            try:
                known[some_id] = decode(payload)
            except DecodeError as error:
                logger.warning("a value in Redis was not written by us: %s", error, extra={"id": some_id})
    return known


def _post(payload: bytes) -> post_pb2.Post | None:
    return post_pb2.Post.FromString(payload) if payload else None


def _name(payload: bytes) -> str | None:
    return graph_pb2.User.FromString(payload).name


def _post_payload(post: post_pb2.Post | None) -> bytes:
    return b"" if post is None else post.SerializeToString()


def _name_payload(user_id: int, name: str) -> bytes:
    return graph_pb2.User(id=user_id, name=name).SerializeToString()
