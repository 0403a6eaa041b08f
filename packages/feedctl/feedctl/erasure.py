"""What is left of a deleted user, looked for past every service: in both databases and in Redis.

Some of it can only be found by what is forgotten while it is erased: which posts there were, and who was tied to the user.
Whoever deletes an account remembers that first (`Stores.ties`). Without it, posts are looked for by going through the keys
in Redis, and counts are compared of those who are named.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg
from feed.post.v1 import post_pb2
from feedkit import feature_keys, keys
from google.protobuf.message import DecodeError
from redis.exceptions import RedisError

from feedctl.redis_keys import RedisKeys, keys_in
from feedctl.targets import Targets, TargetsError

DELETED = 2
"""The standing of deleted accounts, whose rows stay as tombstones."""
MOST_TIES = 10_000
"""Of how many people who were tied to a user it is looked at what they have left of the user."""
MOST_POSTS = 100_000
_KEYS_AT_ONCE = 500
_TIMELINES_AT_ONCE = 100

# The row of a deleted user stays, so that its id is known to be gone; nothing personal may be in it.
_GRAPH = {
    "users (but a tombstone)": """
        SELECT count(*) FROM users
        WHERE id = $1 AND NOT (standing = 2 AND name = '' AND following_count = 0 AND home_view = 0)
    """,
    "follows": "SELECT count(*) FROM follows WHERE follower_id = $1 OR followee_id = $1",
    "blocks": "SELECT count(*) FROM blocks WHERE blocker_id = $1 OR blocked_id = $1",
    "mutes": "SELECT count(*) FROM mutes WHERE muter_id = $1 OR muted_id = $1",
    "view_choices": "SELECT count(*) FROM view_choices WHERE user_id = $1",
    "activity": "SELECT count(*) FROM activity WHERE user_id = $1",
    "follower_counts": "SELECT count(*) FROM follower_counts WHERE user_id = $1",
    # That somebody with this id has left the index stays, for readers who have yet to hear of it; it is the id alone.
    "pulled_authors (but pulled_authors_left)": "SELECT count(*) FROM pulled_authors WHERE author_id = $1",
    "outbox": "SELECT count(*) FROM outbox WHERE key = $1::bigint::text",
}
_POST = {
    # Apart, because deleted and standing posts have an index each.
    "posts": """
        SELECT (SELECT count(*) FROM posts WHERE author_id = $1 AND NOT deleted)
            + (SELECT count(*) FROM posts WHERE author_id = $1 AND deleted)
    """,
    # That somebody with this id is to be erased once more stays for a moment; it is the id alone.
    "engagements": "SELECT count(*) FROM engagements WHERE actor_id = $1",
    "feedback": "SELECT count(*) FROM feedback WHERE actor_id = $1",
    "impressions": "SELECT count(*) FROM impressions WHERE viewer_id = $1",
    "idempotency_keys": "SELECT count(*) FROM idempotency_keys WHERE author_id = $1",
    "outbox": "SELECT count(*) FROM outbox WHERE key = $1::bigint::text",
}
# What others have seen of the posts, or had against them, is theirs, and lives for a month.
_WITH_POSTS = {
    "engagements": "SELECT count(*) FROM engagements WHERE post_id = ANY($1::bigint[])",
    "engagement_counts": "SELECT count(*) FROM engagement_counts WHERE post_id = ANY($1::bigint[])",
}
_ACCOUNT = "SELECT id, name, standing FROM users WHERE id = $1"
_POST_IDS = """
(SELECT id FROM posts WHERE author_id = $1 AND NOT deleted ORDER BY id DESC LIMIT $2)
UNION ALL (SELECT id FROM posts WHERE author_id = $1 AND deleted LIMIT $2)
LIMIT $2
"""
# Each kind is limited alone, so that nobody's millions are put together first.
_TIED = """
(SELECT follower_id FROM follows WHERE followee_id = $1 LIMIT $2)
UNION (SELECT followee_id FROM follows WHERE follower_id = $1 LIMIT $2)
UNION (SELECT blocker_id FROM blocks WHERE blocked_id = $1 LIMIT $2)
UNION (SELECT blocked_id FROM blocks WHERE blocker_id = $1 LIMIT $2)
UNION (SELECT muter_id FROM mutes WHERE muted_id = $1 LIMIT $2)
UNION (SELECT muted_id FROM mutes WHERE muter_id = $1 LIMIT $2)
LIMIT $2
"""
_MISCOUNTED = """
SELECT count(*) FROM users AS u WHERE id = ANY($1::bigint[]) AND (
    following_count <> (SELECT count(*) FROM follows WHERE follower_id = u.id)
    OR (SELECT coalesce(sum(count), 0) FROM follower_counts WHERE user_id = u.id)
        <> (SELECT count(*) FROM follows WHERE followee_id = u.id))
"""


class Account(NamedTuple):
    """A user as the database has them."""

    user_id: int
    name: str
    standing: int

    @property
    def is_deleted(self) -> bool:
        """Whether only a tombstone is there."""
        return self.standing == DELETED


@dataclass(frozen=True)
class Ties:
    """What leads to a user, as far as it is remembered."""

    post_ids: Sequence[int] = ()
    """The user's posts: the newest MOST_POSTS at most."""
    user_ids: Sequence[int] = ()
    """Who followed, blocked or muted the user, or the other way round: MOST_TIES at most."""

    def joined(self, other: "Ties") -> "Ties":
        """Both."""
        return Ties(sorted({*self.post_ids, *other.post_ids}, reverse=True), sorted({*self.user_ids, *other.user_ids}))


class Trace(NamedTuple):
    """One place that was looked at."""

    place: str
    looked_at: str
    """How much was looked at there."""
    left: int
    """How much of the user was found."""
    unseen: bool = False
    """Whether it was not known where to look."""


class Stores:
    """The databases and the Redis of a mesh."""

    def __init__(self, graph: "asyncpg.Connection[Any]", post: "asyncpg.Connection[Any]", in_redis: RedisKeys) -> None:
        self._graph = graph
        self._post = post
        self._redis = in_redis

    async def account(self, user_id: int) -> Account | None:
        """How an account stands; None where there never was one."""
        row = await self._graph.fetchrow(_ACCOUNT, user_id)
        return None if row is None else Account(*row)

    async def ties(self, user_id: int) -> Ties:
        """What leads to a user now."""
        post_ids = [row[0] for row in await self._post.fetch(_POST_IDS, user_id, MOST_POSTS)]
        return Ties(post_ids, [row[0] for row in await self._graph.fetch(_TIED, user_id, MOST_TIES)])

    async def left(self, user_id: int, ties: Ties) -> list[Trace]:
        """What is left of a user, but for what `counts` and `scan` find. Redis is only looked at when the rows are gone."""
        rows = await self.rows(user_id)
        return rows if total(rows) else rows + await self.copies(user_id, ties)

    async def everything_left(self, user_id: int, ties: Ties, most_keys: int) -> list[Trace]:
        """All that is left of a user. What only `scan` finds is looked for in about so many keys at most."""
        return [
            *await self.rows(user_id),
            *await self.with_posts(ties),
            *await self.copies(user_id, ties),
            await self.counts(ties),
            await self.scan(user_id, most_keys),
        ]

    async def rows(self, user_id: int) -> list[Trace]:
        """What is left in the databases."""
        return [
            Trace(f"{database}: {table}", "table", await connection.fetchval(query, user_id))
            for database, connection, queries in (("graph", self._graph, _GRAPH), ("post", self._post, _POST))
            for table, query in queries.items()
        ]

    async def with_posts(self, ties: Ties) -> list[Trace]:
        """What is left in the databases of what was done with a user's posts."""
        return [
            Trace(
                f"post: {table} of posts",
                _of_posts(ties),
                await self._post.fetchval(query, ties.post_ids),
                unseen=not ties.post_ids,
            )
            for table, query in _WITH_POSTS.items()
        ]

    async def copies(self, user_id: int, ties: Ties) -> list[Trace]:
        """What is left in Redis, of the user's own and, as far as ties are known, of the posts and among others."""
        return [*await self._own_keys(user_id), *await self._posts(ties), *await self._with_others(user_id, ties)]

    async def counts(self, ties: Ties) -> Trace:
        """Of how many who were tied to a user the counts of follows do not equal the follows."""
        miscounted = await self._graph.fetchval(_MISCOUNTED, ties.user_ids)
        return Trace("graph: counts that do not equal their rows", _of_tied(ties), miscounted, unseen=not ties.user_ids)

    async def _own_keys(self, user_id: int) -> list[Trace]:
        looked_at = {key(user_id): holds for key, holds in _OWN_KEYS.items()}
        values = await self._redis.values(list(looked_at))
        return [
            Trace(f"redis: {key}", "key", int(holds(value)))
            for (key, holds), value in zip(looked_at.items(), values, strict=True)
        ]

    async def _posts(self, ties: Ties) -> list[Trace]:
        found = 0
        for ids in _batches(ties.post_ids, _KEYS_AT_ONCE):
            values = await self._redis.values([keys.post(post_id) for post_id in ids])
            # That there is no such post is cached too.
            found += sum(bool(keys.payload(value)) for value in values)
        return [Trace("redis: post:v1:*", _of_posts(ties), found, unseen=not ties.post_ids)]

    async def _with_others(self, user_id: int, ties: Ties) -> list[Trace]:
        names = {keys.timeline: in_timeline, keys.context: in_context, keys.hidden: in_hidden}
        found = dict.fromkeys(names, 0)
        for ids in _batches(ties.user_ids, _TIMELINES_AT_ONCE):
            for key, is_named in names.items():
                values = await self._redis.values(list(map(key, ids)))
                found[key] += sum(is_named(value, user_id) for value in values)
        return [
            Trace(f"redis: {pattern}:v1:*", _of_tied(ties), count, unseen=not ties.user_ids)
            for pattern, count in zip(("tl", "ctx", "hidden"), found.values(), strict=True)
        ]

    async def scan(self, user_id: int, most: int) -> Trace:
        """Posts of the user among the keys in Redis, of which at most about so many are gone through."""
        looked, found, was_all = 0, 0, False
        async with aclosing(self._redis.pages("post:v1:*", _KEYS_AT_ONCE)) as pages:
            async for names in pages:
                if looked >= most:
                    break
                found += sum(is_post_of(value, user_id) for value in await self._redis.values(names))
                looked += _KEYS_AT_ONCE
            else:
                was_all = True
        size = await self._redis.count()
        return Trace(
            "redis: post:v1:* by author", f"{'the first ' * (not was_all)}{min(looked, size)} of {size} keys", found
        )


@asynccontextmanager
async def stores(targets: Targets) -> AsyncGenerator[Stores]:
    """Open the stores of a mesh. Raises TargetsError where one of them has no address, or does not let us in."""
    if not {"graph", "post"} <= targets.postgres.keys() or targets.redis is None:
        raise TargetsError("erasure is seen in the stores: it needs the addresses of both databases and of Redis")
    graph = await _reached("graph's database", asyncpg.connect(targets.postgres["graph"]))
    try:
        post = await _reached("post's database", asyncpg.connect(targets.postgres["post"]))
        try:
            async with AsyncExitStack() as opened:
                in_redis = await _reached("Redis", opened.enter_async_context(keys_in(targets.redis)))
                yield Stores(graph, post, in_redis)
        finally:
            await post.close()
    finally:
        await graph.close()


async def _reached(store: str, connecting: Awaitable[Any]) -> Any:
    try:
        return await connecting
    except (OSError, asyncpg.PostgresError, RedisError) as error:
        raise TargetsError(f"{store} cannot be reached: {error}".splitlines()[0]) from error


def total(traces: Iterable[Trace]) -> int:
    """How much is left in all."""
    return sum(trace.left for trace in traces)


# --- what a key holds of a user ----------------------------------------------------------------------------------------


def holds_something(value: bytes | None) -> bool:
    """Whether a cached value is there that tells of somebody; a lease is none, and an empty list tells of nobody.

    Whoever looks at posts in a deleted user's name still leaves behind that nothing is hidden from them.
    """
    if value is None or is_lease(value):
        return False
    payload = keys.payload(value)
    return payload is None or payload.strip(b"\0") != b""


def is_lease(value: bytes) -> bool:
    """Whether somebody is just about to fill a key, in which there is nothing yet."""
    return len(value) == 1 + keys.TOKEN_BYTES and keys.payload(value) is None


def is_post_of(value: bytes | None, author_id: int) -> bool:
    """Whether a value of `post` is one that a user wrote."""
    if not (payload := keys.payload(value)):
        return False
    try:
        return post_pb2.Post.FromString(payload).author_id == author_id
    except DecodeError:
        return False


def in_timeline(value: bytes | None, author_id: int) -> bool:
    """Whether a home timeline has posts of a user."""
    tail = None if value is None else keys.decode_timeline(value)
    return tail is not None and author_id in tail.columns(0, tail.length)[1]


def in_context(value: bytes | None, user_id: int) -> bool:
    """Whether a viewer's context says that a user is followed. What no service can read is as good as absent."""
    payload = keys.payload(value)
    if payload is None:
        return False
    try:
        context = keys.decode_context(payload)
    except keys.Undecodable:
        return False
    return user_id in context.followee_ids or user_id in context.favourite_ids


def in_hidden(value: bytes | None, user_id: int) -> bool:
    """Whether what is hidden from a viewer names a user. What no service can read is as good as absent."""
    payload = keys.payload(value)
    if payload is None:
        return False
    try:
        hidden = keys.decode_hidden(payload)
    except keys.Undecodable:
        return False
    return user_id in hidden.blocked or user_id in hidden.muted


def is_there(value: bytes | None) -> bool:
    """Whether there is a key whose values always tell of somebody."""
    return value is not None


def is_other_than(ended: bytes) -> Callable[[bytes | None], bool]:
    """Whether there is a feature key that has not ended with the account, as one to which nothing is added."""
    return lambda value: value not in {None, ended}


_OWN_KEYS: Mapping[Callable[[int], str], Callable[[bytes | None], bool]] = {
    keys.timeline: is_there,
    keys.context: holds_something,
    keys.hidden: holds_something,
    keys.own: holds_something,
    keys.recents: holds_something,
    keys.user: holds_something,
    feature_keys.orders: is_there,
    feature_keys.affinity: is_other_than(feature_keys.ENDED_AFFINITY),
    feature_keys.seen: is_other_than(feature_keys.ENDED_SEEN),
    feature_keys.author_signals: is_other_than(feature_keys.ENDED_AUTHOR_SIGNALS),
}
"""The keys of a user's own, and how it is told of what they hold that something is left."""


def _of_posts(ties: Ties) -> str:
    return f"{len(ties.post_ids)} known posts"


def _of_tied(ties: Ties) -> str:
    return f"of {len(ties.user_ids)} who were tied"


def _batches(ids: Sequence[int], size: int) -> list[Sequence[int]]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]
