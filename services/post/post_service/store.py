"""Posts, idempotency keys and the outbox in PostgreSQL."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from feed.events.v1 import events_pb2
from feedkit import deadline, kafka, outbox
from feedkit.errors import Aborted, Unavailable
from feedkit.postgres import Connection, Database

from post_service import pull_query
from post_service.idempotency import Earlier, Key
from post_service.post import Medium, Post
from post_service.posts import Owner

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
INSERT INTO posts (id, author_id, content, media) VALUES ($1, $2, $3, $4::jsonb)
"""
_OWNER = "SELECT author_id, deleted FROM posts WHERE id = $1 FOR UPDATE"
_DELETE = "UPDATE posts SET deleted = true WHERE id = $1"
_READ = """
SELECT id, author_id, content, media, coalesce((extract(epoch FROM edited_at) * 1000)::bigint, 0)
FROM posts WHERE id = ANY($1::bigint[]) AND NOT deleted
"""
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
        return {row[0]: Post(row[0], row[1], row[2], _media(row[3]), row[4]) for row in rows}

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
        """Write a post and its event."""
        media = json.dumps([medium._asdict() for medium in post.media], ensure_ascii=False)
        try:
            await self._connection.execute(_ADD, post.id, post.author_id, post.content, media, key.key if key else None)
        except asyncpg.UniqueViolationError as error:
            # Only a database that lost leases it had granted, by a failover, can let this happen. Nothing was written.
            raise Unavailable("IDS_UNAVAILABLE", f"the id {post.id} exists already") from error
        await self._tell(post.id, post.author_id, events_pb2.POST_EVENT_KIND_CREATED)

    async def owner(self, post_id: int) -> Owner | None:
        """Whose post it is; its row stays locked."""
        row = await self._connection.fetchrow(_OWNER, post_id)
        return Owner(*row) if row else None

    async def delete(self, post_id: int, author_id: int) -> None:
        """Delete a post, and write its event."""
        await self._connection.execute(_DELETE, post_id)
        await self._tell(post_id, author_id, events_pb2.POST_EVENT_KIND_DELETED)

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


def _media(stored: str) -> tuple[Medium, ...]:
    return tuple(Medium(**medium) for medium in json.loads(stored))
