"""Posts, idempotency keys and the outbox in PostgreSQL."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from feed.events.v1 import events_pb2
from feedkit import deadline, kafka, outbox
from feedkit.errors import Aborted, Unavailable, post_not_found
from feedkit.postgres import Connection, Database

from post_service import pull_query
from post_service.engagement_store import NOW_MS, REPLY, counting, tell
from post_service.idempotency import Earlier, Key
from post_service.post import Medium, Post
from post_service.posts import Held
from post_service.traits import Outline

ANSWER_SECONDS = 0.1
"""What a request that waited for a key keeps of its deadline, to say that it waited in vain."""

# An expired key starts anew. While another transaction has the key, this waits for its end, which the setting bounds; it
# is local to the transaction, because sessions are shared.
_CLAIM = """
INSERT INTO idempotency_keys AS k (author_id, key, fingerprint, expires_at)
SELECT $1, $2, $3, now() + $4::interval FROM set_config('lock_timeout', $5, true)
ON CONFLICT (author_id, key) DO UPDATE
SET fingerprint = excluded.fingerprint, post_id = NULL, expires_at = excluded.expires_at
WHERE k.expires_at <= now()
RETURNING true
"""
_EARLIER = "SELECT fingerprint, post_id FROM idempotency_keys WHERE author_id = $1 AND key = $2"
_ADD = """
WITH taken AS (UPDATE idempotency_keys SET post_id = $1 WHERE author_id = $2 AND key = $5)
INSERT INTO posts (id, author_id, content, media, reply_to) VALUES ($1, $2, $3, $4::jsonb, nullif($6::bigint, 0))
"""
# What is counted less may have been deleted, but not erased.
_COUNT_REPLY = f"""
WITH parent AS (
    SELECT id AS post_id, {REPLY}::smallint AS kind, $2::integer AS change, author_id FROM posts
    WHERE id = $1 AND ($2 < 0 OR NOT deleted)
),
counted AS ({counting("parent")})
SELECT author_id, {NOW_MS} FROM parent
"""  # noqa: S608 (made of constants)
_POST = (
    "id, author_id, content, media, coalesce((extract(epoch FROM edited_at) * 1000)::bigint, 0), coalesce(reply_to, 0)"
)
_HOLD = f"SELECT {_POST}, deleted FROM posts WHERE id = $1 FOR UPDATE"  # noqa: S608 (made of constants)
# By the clock at the moment of the edit, not of its transaction's begin: whoever waited for another's edit came later. An
# edit is never earlier than one before it, nor than the post, whose time is by another clock.
_EDIT = f"""
UPDATE posts SET content = $2, media = $3::jsonb,
    edited_at = greatest(clock_timestamp(), edited_at, to_timestamp($4 / 1000.0))
WHERE id = $1
RETURNING {_POST}
"""  # noqa: S608 (made of constants)
_DELETE = "UPDATE posts SET deleted = true WHERE id = $1"
_AUTHOR_OF = "SELECT author_id FROM posts WHERE id = $1 AND NOT deleted"
# Texts without a hashtag need not travel.
_OUTLINES = """
SELECT id, media <> '[]'::jsonb, reply_to IS NOT NULL, CASE WHEN position('#' IN content) > 0 THEN content ELSE '' END
FROM posts WHERE id = ANY($1::bigint[]) AND NOT deleted
"""
_READ = f"SELECT {_POST} FROM posts WHERE id = ANY($1::bigint[]) AND NOT deleted"  # noqa: S608 (made of constants)
_IDS_OF_AUTHOR = """
SELECT id FROM posts WHERE author_id = $1 AND NOT deleted AND id < $2 ORDER BY id DESC LIMIT $3
"""
_PURGE = """
DELETE FROM idempotency_keys WHERE (author_id, key) IN (
    SELECT author_id, key FROM idempotency_keys WHERE expires_at <= now()
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
"""


class PostStore:
    """Implements `posts.Store`."""

    def __init__(self, database: Database, *, key_lifetime: timedelta, key_wait_seconds: float) -> None:
        self._database = database
        self._key_lifetime = key_lifetime
        self._key_wait_seconds = key_wait_seconds

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator["PostgresWriting"]:
        """A transaction, committed at the end of the block if anything was written in it."""
        try:
            async with self._database.transaction() as connection:
                writing = PostgresWriting(connection, self._key_lifetime, self._key_wait_seconds)
                yield writing
                if not writing.wrote:
                    # Looking at a key locks its row, so that even then a commit would wait for the disk.
                    raise _NothingWritten
        except _NothingWritten:
            return

    async def read(self, post_ids: Sequence[int]) -> dict[int, Post]:
        """Those of the posts that stand, by id."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(_READ, post_ids)
        return {row[0]: _post(row) for row in rows}

    async def author_of(self, post_id: int) -> int | None:
        """Whose a post is; None where no such post stands."""
        async with self._database.connection() as connection:
            return await connection.fetchval(_AUTHOR_OF, post_id)

    async def outlines(self, post_ids: Sequence[int]) -> dict[int, Outline]:
        """What is to be known of those of the posts that stand, by id."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(_OUTLINES, post_ids)
        return {row[0]: Outline(*row) for row in rows}

    async def ids_of_author(self, author_id: int, before_id: int, limit: int) -> list[int]:
        """The newest posts of an author with ids below a bound."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(_IDS_OF_AUTHOR, author_id, before_id, limit)
        return [row[0] for row in rows]

    async def recent(self, author_ids: Sequence[int], before_id: int, limit: int) -> list[tuple[int, int]]:
        """The newest posts of some distinct authors with ids below a bound: post id and author id."""
        arguments = pull_query.arguments(author_ids, before_id, limit)
        async with self._database.connection() as connection:
            rows = await connection.fetch(pull_query.SQL, *arguments)
        return [(row[0], row[1]) for row in rows]


class _NothingWritten(Exception):
    """Rolls back a transaction in which there is nothing to commit."""


class PostgresWriting:
    """Implements `posts.Writing` in the transaction that a connection has open."""

    def __init__(self, connection: Connection, key_lifetime: timedelta, key_wait_seconds: float) -> None:
        self._connection = connection
        self._key_lifetime = key_lifetime
        self._key_wait_seconds = key_wait_seconds
        self.wrote = False
        """Whether there is anything to commit."""

    async def claim(self, key: Key) -> Earlier | None:
        """Take an idempotency key, or tell what it stands for."""
        wait_seconds = max(deadline.timeout_for_call(self._key_wait_seconds) - ANSWER_SECONDS, 0.001)
        lock_timeout = f"{wait_seconds * 1000:.0f}ms"
        try:
            taken = await self._connection.fetchval(_CLAIM, *key, self._key_lifetime, lock_timeout)
        except asyncpg.LockNotAvailableError as error:
            message = "idempotency_key: the first request with it is still running; try again later"
            raise Aborted("IDEMPOTENCY_KEY_IN_FLIGHT", message) from error
        if taken:
            return None
        # The statement before has locked it, so it cannot be gone.
        [row] = await self._connection.fetch(_EARLIER, key.author_id, key.key)
        return Earlier(*row)

    async def add(self, post: Post, key: Key | None) -> None:
        """Write a post and its events; what it replies to counts it."""
        try:
            await self._connection.execute(
                _ADD,
                post.id,
                post.author_id,
                post.content,
                _stored(post.media),
                key.key if key else None,
                post.reply_to,
            )
        except asyncpg.UniqueViolationError as error:
            # Only a database that lost leases it had granted, by a failover, can let this happen. Nothing was written.
            raise Unavailable("IDS_UNAVAILABLE", f"the id {post.id} exists already") from error
        await self._tell(post.id, post.author_id, events_pb2.POST_EVENT_KIND_CREATED)
        if post.reply_to and not await self._count_reply(post, 1, events_pb2.ENGAGEMENT_EVENT_KIND_REPLIED):
            raise post_not_found(post.reply_to)

    async def hold(self, post_id: int) -> Held | None:
        """A post, deleted or not; its row stays locked."""
        row = await self._connection.fetchrow(_HOLD, post_id)
        return Held(_post(row), deleted=row[6]) if row else None

    async def edit(self, post: Post) -> Post:
        """Write text and media of a post, and its event; the post with the time of that, by the database's clock."""
        [row] = await self._connection.fetch(_EDIT, post.id, post.content, _stored(post.media), post.created_at_ms)
        await self._tell(post.id, post.author_id, events_pb2.POST_EVENT_KIND_EDITED)
        return _post(row)

    async def delete(self, post: Post) -> None:
        """Delete a post, and write its events; what it replies to counts it no longer."""
        await self._connection.execute(_DELETE, post.id)
        await self._tell(post.id, post.author_id, events_pb2.POST_EVENT_KIND_DELETED)
        if post.reply_to:
            await self._count_reply(post, -1, events_pb2.ENGAGEMENT_EVENT_KIND_UNREPLIED)

    async def _count_reply(self, reply: Post, change: int, kind: events_pb2.EngagementEventKind.ValueType) -> bool:
        """Count a reply, and tell of it. False where there is nothing that could count it."""
        parent = await self._connection.fetchrow(_COUNT_REPLY, reply.reply_to, change)
        if parent is None:
            return False
        event = events_pb2.EngagementEvent(
            actor_id=reply.author_id,
            post_id=reply.reply_to,
            author_id=parent[0],
            kind=kind,
            occurred_at_ms=parent[1],
        )
        await tell(self._connection, [event])
        return True

    async def _tell(self, post_id: int, author_id: int, kind: events_pb2.PostEventKind.ValueType) -> None:
        self.wrote = True
        event = events_pb2.PostEvent(post_id=post_id, author_id=author_id, kind=kind)
        await outbox.append(self._connection, kafka.POST_EVENTS, [(author_id, event)])


class ExpiredKeys:
    """Idempotency keys that nobody needs any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def remove(self, at_most: int) -> int:
        """Remove some. Returns how many."""
        async with self._database.connection() as connection:
            status = await connection.execute(_PURGE, at_most)
        return int(status.removeprefix("DELETE "))


def _post(row: asyncpg.Record) -> Post:
    return Post(row[0], row[1], row[2], _media(row[3]), row[4], row[5])


def _stored(media: tuple[Medium, ...]) -> str:
    return json.dumps([medium._asdict() for medium in media], ensure_ascii=False)


def _media(stored: str) -> tuple[Medium, ...]:
    return tuple(Medium(**medium) for medium in json.loads(stored))
