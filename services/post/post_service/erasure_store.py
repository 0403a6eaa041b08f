"""What is left of deleted users, in PostgreSQL."""

from collections.abc import Sequence
from datetime import timedelta

import asyncpg
from feed.events.v1 import events_pb2
from feedkit.postgres import Database

from post_service.engagement_store import NOW_MS, REPLY, TAKEN_BACK, counting, tell

_BEGIN = "INSERT INTO erased_authors (author_id) VALUES ($1) ON CONFLICT DO NOTHING"
_BEGUN = "SELECT author_id FROM erased_authors WHERE at < now() - $2::interval ORDER BY at LIMIT $1"
_FINISH = "DELETE FROM erased_authors WHERE author_id = $1"

# What somebody else is changing is left for the next slice, in all of these. Whatever is counted is so only where its post
# is there: of one that has been erased nobody counts anything any more.
_RETRACT = f"""
WITH retracted AS (
    UPDATE posts SET deleted = true WHERE id IN (
        SELECT id FROM posts WHERE author_id = $1 AND NOT deleted LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING reply_to
),
ended AS (
    SELECT p.id AS post_id, {REPLY}::smallint AS kind, -1 AS change, p.author_id
    FROM retracted r JOIN posts p ON p.id = r.reply_to
),
counted AS ({counting("ended")})
SELECT post_id, kind, author_id, {NOW_MS} FROM ended
"""  # noqa: S608 (made of constants)
_RETRACTED = "SELECT id FROM posts WHERE author_id = $1 AND deleted LIMIT $2"
_ERASE_ENGAGEMENT_WITH = """
DELETE FROM engagements WHERE (post_id, kind, actor_id) IN (
    SELECT post_id, kind, actor_id FROM engagements WHERE post_id = ANY($1::bigint[]) LIMIT $2 FOR UPDATE SKIP LOCKED
)
"""
_ERASE_POSTS = """
DELETE FROM posts WHERE id IN (
    SELECT id FROM posts p WHERE id = ANY($1::bigint[]) AND deleted
        AND NOT EXISTS (SELECT FROM engagements e WHERE e.post_id = p.id)
    FOR UPDATE SKIP LOCKED
) RETURNING id
"""
_ERASE_COUNTS = """
DELETE FROM engagement_counts WHERE (post_id, kind, slot) IN (
    SELECT post_id, kind, slot FROM engagement_counts WHERE post_id = ANY($1::bigint[])
    ORDER BY post_id, kind, slot FOR UPDATE
)
"""
_ERASE_KEYS = """
DELETE FROM idempotency_keys WHERE author_id = $1 AND key IN (
    SELECT key FROM idempotency_keys WHERE author_id = $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)
"""
_ERASE_ENGAGEMENTS = f"""
WITH erased AS (
    DELETE FROM engagements WHERE (post_id, kind, actor_id) IN (
        SELECT post_id, kind, actor_id FROM engagements WHERE actor_id = $1 LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING post_id, kind
),
ended AS (
    SELECT e.post_id, e.kind, -1 AS change, p.author_id FROM erased e JOIN posts p ON p.id = e.post_id
),
counted AS ({counting("ended")})
SELECT post_id, kind, author_id, {NOW_MS} FROM ended
"""  # noqa: S608 (made of constants)
_ERASE_FEEDBACK = """
DELETE FROM feedback WHERE (actor_id, post_id, kind) IN (
    SELECT actor_id, post_id, kind FROM feedback WHERE actor_id = $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)
"""
_ERASE_IMPRESSIONS = """
DELETE FROM impressions WHERE (viewer_id, post_id, day, view) IN (
    SELECT viewer_id, post_id, day, view FROM impressions WHERE viewer_id = $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)
"""
# Deleted and standing posts are asked for apart, because each has an index of its own.
_IS_ERASED = """
SELECT NOT EXISTS (SELECT FROM posts WHERE author_id = $1 AND NOT deleted)
    AND NOT EXISTS (SELECT FROM posts WHERE author_id = $1 AND deleted)
    AND NOT EXISTS (SELECT FROM idempotency_keys WHERE author_id = $1)
    AND NOT EXISTS (SELECT FROM engagements WHERE actor_id = $1)
    AND NOT EXISTS (SELECT FROM feedback WHERE actor_id = $1)
    AND NOT EXISTS (SELECT FROM impressions WHERE viewer_id = $1)
"""


class ErasureStore:
    """Implements `erasure.Store`."""

    def __init__(self, database: Database, remembered: timedelta) -> None:
        """`remembered` is how long after its deletion somebody may still take an account for active, and act on that."""
        self._database = database
        self._remembered = remembered

    async def begin(self, author_id: int) -> None:
        """Note that the erasure of somebody has begun, if that is not noted."""
        async with self._database.connection() as connection:
            await connection.execute(_BEGIN, author_id)

    async def begun(self, at_most: int) -> list[int]:
        """Some whose erasure began so long ago that nobody takes them for active any more."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(_BEGUN, at_most, self._remembered)
        return [row[0] for row in rows]

    async def finish(self, author_id: int) -> None:
        """Remove the note of somebody's erasure."""
        async with self._database.connection() as connection:
            await connection.execute(_FINISH, author_id)

    async def retract(self, author_id: int, at_most: int) -> list[int]:
        """Delete some posts of an author, without an event of them; ids of deleted ones, these or others."""
        async with self._database.transaction() as connection:
            ended = await connection.fetch(_RETRACT, author_id, at_most)
            await tell(connection, _taken_back(author_id, ended))
            rows = await connection.fetch(_RETRACTED, author_id, at_most)
        return [row[0] for row in rows]

    async def erase_posts(self, author_id: int, post_ids: Sequence[int], at_most: int) -> int:
        """Remove deleted posts of an author for good, if no engagement with them is left; how many."""
        async with self._database.transaction() as connection:
            await connection.execute(_ERASE_ENGAGEMENT_WITH, post_ids, at_most)
            erased = [row[0] for row in await connection.fetch(_ERASE_POSTS, post_ids)]
            await connection.execute(_ERASE_COUNTS, erased)
            await connection.execute(_ERASE_KEYS, author_id, at_most)
        return len(erased)

    async def erase_deeds(self, actor_id: int, at_most: int) -> None:
        """Remove some of what somebody did with posts and has seen of them, with counts and events."""
        async with self._database.transaction() as connection:
            ended = await connection.fetch(_ERASE_ENGAGEMENTS, actor_id, at_most)
            await tell(connection, _taken_back(actor_id, ended))
            await connection.execute(_ERASE_FEEDBACK, actor_id, at_most)
            await connection.execute(_ERASE_IMPRESSIONS, actor_id, at_most)

    async def is_erased(self, author_id: int) -> bool:
        """Whether nothing is left."""
        async with self._database.connection() as connection:
            return await connection.fetchval(_IS_ERASED, author_id)


def _taken_back(actor_id: int, ended: Sequence[asyncpg.Record]) -> list[events_pb2.EngagementEvent]:
    return [
        events_pb2.EngagementEvent(
            actor_id=actor_id, post_id=row[0], author_id=row[2], kind=TAKEN_BACK[row[1]], occurred_at_ms=row[3]
        )
        for row in ended
    ]
