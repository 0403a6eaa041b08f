"""The cache in Redis: `post`, `counts`, `user` and `hidden` in `feedkit.keys`, which hydrate alone fills in."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from feed.graph.v1 import graph_pb2
from feed.post.v1 import post_pb2
from feedkit import key_scripts, keys
from feedkit.cursor import created_at_ms
from feedkit.redis import Redis
from google.protobuf.message import DecodeError

from hydrate_service.hydration import Cached, Counts
from hydrate_service.visibility import Author, Hides

logger = logging.getLogger(__name__)

Value = TypeVar("Value")
_ACTIVE, _SUSPENDED = graph_pb2.USER_STANDING_ACTIVE, graph_pb2.USER_STANDING_SUSPENDED

SETTLED_MS = 60_000
"""How old an id must be for its absence to be remembered. Ids can be guessed before they are given to a post, so a younger
one may still be written; a minute is more than clocks differ and commits take."""


class CacheStore:
    """Reads whatever there is in one round trip."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def read(
        self, post_ids: Sequence[int], author_ids: Sequence[int], viewer_id: int = 0
    ) -> Cached[post_pb2.Post]:
        """See `hydration.Cache`."""
        wanted = [*map(keys.post, post_ids), *map(keys.counts, post_ids), *map(keys.user, author_ids)]
        if viewer_id:
            wanted.append(keys.hidden(viewer_id))
        (values,) = await self._redis.run(key_scripts.get_many(wanted))
        payloads = iter(list(map(keys.payload, values)))
        # In the order of the keys: each takes as many as it has ids.
        posts = _decoded(_post, post_ids, payloads)
        counts = _decoded(keys.decode_counts, post_ids, payloads)
        authors = _decoded(_author, author_ids, payloads)
        hides = _decoded(_hides, [viewer_id] if viewer_id else [], payloads)
        known = {author_id: author for author_id, author in authors.items() if author}
        return Cached(posts, dict[int, Author | None](known), hides.get(viewer_id), dict[int, Counts](counts))


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


class CountsLeases:
    """Fills in counts. Of a post that is gone there are none, and none are filled in. See `truth.Leases`."""

    def __init__(self, redis: Redis, life_seconds: float) -> None:
        self._redis = redis
        self._life_ms = int(life_seconds * 1000)

    async def take(self, ids: Collection[int]) -> Mapping[int, bytes]:
        """Take the leases that are free."""
        return await _take(self._redis, {post_id: keys.counts(post_id) for post_id in ids})

    async def fill(self, tokens: Mapping[int, bytes], found: Mapping[int, Counts]) -> None:
        """Fill in what was found."""
        await self._redis.run(
            *(
                key_scripts.fill(keys.counts(post_id), token, _counts_payload(found[post_id]), self._life_ms)
                for post_id, token in tokens.items()
                if post_id in found
            )
        )


class AuthorLeases:
    """Fills in authors. That there is nobody is not remembered: their id may be somebody's soon. See `truth.Leases`."""

    def __init__(self, redis: Redis, life_seconds: float) -> None:
        self._redis = redis
        self._life_ms = int(life_seconds * 1000)

    async def take(self, ids: Collection[int]) -> Mapping[int, bytes]:
        """Take the leases that are free."""
        return await _take(self._redis, {user_id: keys.user(user_id) for user_id in ids})

    async def fill(self, tokens: Mapping[int, bytes], found: Mapping[int, Author]) -> None:
        """Fill in what was found."""
        await self._redis.run(
            *(
                key_scripts.fill(keys.user(user_id), token, _author_payload(found[user_id]), self._life_ms)
                for user_id, token in tokens.items()
                if user_id in found
            )
        )


class HidesLeases:
    """Fills in what is hidden from viewers. See `truth.Leases`."""

    def __init__(self, redis: Redis, life_seconds: float) -> None:
        self._redis = redis
        self._life_ms = int(life_seconds * 1000)

    async def take(self, ids: Collection[int]) -> Mapping[int, bytes]:
        """Take the leases that are free."""
        return await _take(self._redis, {viewer_id: keys.hidden(viewer_id) for viewer_id in ids})

    async def fill(self, tokens: Mapping[int, bytes], found: Mapping[int, Hides]) -> None:
        """Fill in what was found."""
        await self._redis.run(
            *(
                key_scripts.fill(keys.hidden(viewer_id), token, _hides_payload(found[viewer_id]), self._life_ms)
                for viewer_id, token in tokens.items()
            )
        )


async def _take(redis: Redis, wanted: Mapping[int, str]) -> Mapping[int, bytes]:
    tokens = {some_id: key_scripts.new_token() for some_id in wanted}
    answers = await redis.run(*(key_scripts.take_lease(key, tokens[some_id]) for some_id, key in wanted.items()))
    return {some_id: tokens[some_id] for some_id, taken in zip(wanted, answers, strict=True) if taken}


def _decoded(
    decode: Callable[[bytes], Value], ids: Sequence[int], payloads: Iterator[bytes | None]
) -> dict[int, Value]:
    """What is known, by id: one payload of each is taken. A value that was not written by us tells nothing."""
    known: dict[int, Value] = {}
    for some_id in ids:
        payload = next(payloads)
        if payload is not None:
            try:
                known[some_id] = decode(payload)
            except (DecodeError, keys.Undecodable) as error:
                logger.warning("a value in Redis was not written by us: %s", error, extra={"id": some_id})
    return known


def _post(payload: bytes) -> post_pb2.Post | None:
    return post_pb2.Post.FromString(payload) if payload else None


def _author(payload: bytes) -> Author | None:
    user = graph_pb2.User.FromString(payload)
    standing = user.standing
    # Without it, the value was written before anybody could be suspended, and is as good as absent.
    return Author(user.id, user.name, standing == _SUSPENDED) if standing else None


def _hides(payload: bytes) -> Hides:
    return Hides(*keys.decode_hidden(payload))


def _post_payload(post: post_pb2.Post | None) -> bytes:
    return b"" if post is None else post.SerializeToString()


def _counts_payload(counts: Counts) -> bytes:
    return keys.encode_counts(keys.Counts(counts.likes, counts.reposts, counts.replies))


def _author_payload(author: Author) -> bytes:
    standing = _SUSPENDED if author.suspended else _ACTIVE
    return graph_pb2.User(id=author.id, name=author.name, standing=standing).SerializeToString()


def _hides_payload(hides: Hides) -> bytes:
    return keys.encode_hidden(keys.HiddenAuthors(*hides))
