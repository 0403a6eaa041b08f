"""Impressions in PostgreSQL, and the events that tell of them."""

from collections.abc import Sequence

from feed.events.v1 import events_pb2
from feedkit import kafka, outbox
from feedkit.postgres import Database

from post_service.engagement_store import NOW_MS
from post_service.impressions import Impression

_TODAY = "(now() AT TIME ZONE 'UTC')::date"
# In one order, so that a retry which runs beside the first try waits for it and finds its rows. A row that this statement
# has made has no xmax. What is not longer is not written; the rows that it is compared with are locked all the same.
_RECORD = f"""
WITH told AS (
    SELECT t.*, p.author_id
    FROM unnest($2::bigint[], $3::integer[], $4::integer[], $5::smallint[]) AS t (post_id, position, dwell_ms, view)
    JOIN posts p ON p.id = t.post_id AND NOT p.deleted
),
recorded AS (
    INSERT INTO impressions AS i (viewer_id, post_id, at, position, dwell_ms, day, view)
    SELECT $1, post_id, now(), position, dwell_ms, {_TODAY}, view FROM told ORDER BY post_id, view
    ON CONFLICT (viewer_id, post_id, day, view) DO UPDATE SET dwell_ms = excluded.dwell_ms
    WHERE i.dwell_ms < excluded.dwell_ms
    RETURNING post_id, view, i.xmax = 0 AS is_new
)
SELECT post_id, author_id, dwell_ms, {NOW_MS} FROM told JOIN recorded USING (post_id, view)
WHERE is_new ORDER BY post_id, view
"""  # noqa: S608 (made of constants)
_PURGE = f"""
DELETE FROM impressions WHERE (viewer_id, post_id, day, view) IN (
    SELECT viewer_id, post_id, day, view FROM impressions WHERE day < {_TODAY} - $2::integer
    ORDER BY day LIMIT $1 FOR UPDATE SKIP LOCKED
)
"""  # noqa: S608 (made of constants)


class ImpressionStore:
    """Implements `impressions.Store`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, viewer_id: int, impressions: Sequence[Impression]) -> int:
        """Keep impressions of posts that stand, and tell of those that are new today; how many these are."""
        columns = [
            [impression.post_id for impression in impressions],
            [impression.position for impression in impressions],
            [impression.dwell_ms for impression in impressions],
            [impression.view.value for impression in impressions],
        ]
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_RECORD, viewer_id, *columns)
            if rows:
                posts = [events_pb2.SeenPost(post_id=row[0], author_id=row[1], dwell_ms=row[2]) for row in rows]
                event = events_pb2.ImpressionsEvent(viewer_id=viewer_id, posts=posts, occurred_at_ms=rows[0][3])
                await outbox.append(connection, kafka.ENGAGEMENT_EVENTS, [(viewer_id, event)])
        return len(rows)


class OldImpressions:
    """Impressions from which nobody learns any more."""

    def __init__(self, database: Database, days: int) -> None:
        self._database = database
        self._days = days

    async def remove(self, at_most: int) -> int:
        """Remove some. Returns how many."""
        async with self._database.connection() as connection:
            status = await connection.execute(_PURGE, at_most, self._days)
        return int(status.removeprefix("DELETE "))
