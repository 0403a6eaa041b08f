"""Engagement, its counts and its events in PostgreSQL."""

from collections.abc import Iterable, Sequence

import asyncpg
from feed.events.v1 import events_pb2
from feedkit import kafka, outbox
from feedkit.postgres import Connection, Database

from post_service.engagement import Counts, Engagement, Feedback, Outcome

REPLY = 3
"""The kind of the count of replies; those of likes and reposts are `Engagement`'s."""

NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The database's time in Unix milliseconds."""


def counting(changes: str) -> str:
    """The statement that adds up the rows of `changes`, a part of the same query: post_id, kind and change.

    Whose connections are at work at once most often have numbers that follow one another, so they write to different
    slots. Rows are locked in one order by everybody.
    """
    return f"""
    INSERT INTO engagement_counts AS c (post_id, kind, slot, count)
    SELECT post_id, kind, pg_backend_pid() % 16, sum(change) FROM {changes} GROUP BY post_id, kind ORDER BY post_id, kind
    ON CONFLICT (post_id, kind, slot) DO UPDATE SET count = c.count + excluded.count
    """  # noqa: S608 (made of constants)


# The row of the post is not locked: those who like a hot one would all write to it. So whoever likes a post that is being
# deleted may come after that, which nobody sees; where it is being erased as well, the like goes with its own actor.
_ENGAGE = f"""
WITH post AS (SELECT id, author_id FROM posts WHERE id = $2 AND NOT deleted),
engaged AS (
    INSERT INTO engagements (post_id, kind, actor_id, at) SELECT id, $3::smallint, $1, clock_timestamp() FROM post
    ON CONFLICT DO NOTHING RETURNING post_id, kind, 1 AS change
),
counted AS ({counting("engaged")})
SELECT author_id, EXISTS (SELECT FROM engaged), {NOW_MS} FROM post
"""  # noqa: S608 (made of constants)
_DISENGAGE = f"""
WITH post AS (SELECT id, author_id FROM posts WHERE id = $2 AND NOT deleted),
disengaged AS (
    DELETE FROM engagements e USING post WHERE e.post_id = post.id AND e.kind = $3::smallint AND e.actor_id = $1
    RETURNING e.post_id, e.kind, -1 AS change
),
counted AS ({counting("disengaged")})
SELECT author_id, EXISTS (SELECT FROM disengaged), {NOW_MS} FROM post
"""  # noqa: S608 (made of constants)
_GIVE_FEEDBACK = f"""
WITH post AS (SELECT id, author_id FROM posts WHERE id = $2 AND NOT deleted),
given AS (
    INSERT INTO feedback (post_id, actor_id, kind, at) SELECT id, $1, $3::smallint, clock_timestamp() FROM post
    ON CONFLICT DO NOTHING RETURNING post_id
)
SELECT author_id, EXISTS (SELECT FROM given), {NOW_MS} FROM post
"""  # noqa: S608 (made of constants)
_COUNTS = """
SELECT p.id,
    coalesce(sum(c.count) FILTER (WHERE c.kind = 1), 0)::bigint,
    coalesce(sum(c.count) FILTER (WHERE c.kind = 2), 0)::bigint,
    coalesce(sum(c.count) FILTER (WHERE c.kind = 3), 0)::bigint
FROM posts p LEFT JOIN engagement_counts c ON c.post_id = p.id
WHERE p.id = ANY($1::bigint[]) AND NOT p.deleted
GROUP BY p.id
"""
_PURGE_FEEDBACK = """
DELETE FROM feedback WHERE (actor_id, post_id, kind) IN (
    SELECT actor_id, post_id, kind FROM feedback WHERE at < now() - make_interval(days => $2)
    ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED
)
"""

_ENGAGED = {
    Engagement.LIKE: events_pb2.ENGAGEMENT_EVENT_KIND_LIKED,
    Engagement.REPOST: events_pb2.ENGAGEMENT_EVENT_KIND_REPOSTED,
}
_DISENGAGED = {
    Engagement.LIKE: events_pb2.ENGAGEMENT_EVENT_KIND_UNLIKED,
    Engagement.REPOST: events_pb2.ENGAGEMENT_EVENT_KIND_UNREPOSTED,
}
_GIVEN = {
    Feedback.LESS_LIKE_THIS: events_pb2.ENGAGEMENT_EVENT_KIND_LESS_LIKE_THIS,
    Feedback.HIDE: events_pb2.ENGAGEMENT_EVENT_KIND_HIDDEN,
}
TAKEN_BACK = {
    **{engagement.value: kind for engagement, kind in _DISENGAGED.items()},
    REPLY: events_pb2.ENGAGEMENT_EVENT_KIND_UNREPLIED,
}
"""What an event says of a count's kind that somebody has taken back."""


class EngagementStore:
    """Implements `engagement.Store`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def engage(self, actor_id: int, post_id: int, engagement: Engagement) -> Outcome | None:
        """Mark a post, or find it marked; None where no such post stands."""
        return await self._mark(_ENGAGE, actor_id, post_id, engagement, _ENGAGED[engagement])

    async def disengage(self, actor_id: int, post_id: int, engagement: Engagement) -> Outcome | None:
        """Take a mark back, or find none; None where no such post stands."""
        return await self._mark(_DISENGAGE, actor_id, post_id, engagement, _DISENGAGED[engagement])

    async def _mark(
        self,
        statement: str,
        actor_id: int,
        post_id: int,
        engagement: Engagement,
        told: events_pb2.EngagementEventKind.ValueType,
    ) -> Outcome | None:
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(statement, actor_id, post_id, engagement.value)
            if row is None:
                return None
            if row[1]:
                await tell(connection, [_event(actor_id, post_id, row, told)])
            counts = (await counts_of(connection, [post_id])).get(post_id)
        # Deleted at this very moment, it is not there.
        return Outcome(counts, changed=row[1]) if counts else None

    async def give_feedback(self, actor_id: int, post_id: int, feedback: Feedback) -> bool | None:
        """Record what somebody has against a post; whether that is new; None where no such post stands."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_GIVE_FEEDBACK, actor_id, post_id, feedback.value)
            if row is None:
                return None
            if row[1]:
                await tell(connection, [_event(actor_id, post_id, row, _GIVEN[feedback])])
        return row[1]

    async def counts(self, post_ids: Sequence[int]) -> dict[int, Counts]:
        """The counts of those of the posts that stand."""
        async with self._database.connection() as connection:
            return await counts_of(connection, post_ids)


async def counts_of(connection: Connection, post_ids: Sequence[int]) -> dict[int, Counts]:
    """The counts of those of the posts that stand, with what the connection itself has changed."""
    rows = await connection.fetch(_COUNTS, post_ids)
    return {row[0]: Counts(row[1], row[2], row[3]) for row in rows}


async def tell(connection: Connection, events: Iterable[events_pb2.EngagementEvent]) -> None:
    """Append events in the transaction that is open, each keyed by its actor."""
    await outbox.append(connection, kafka.ENGAGEMENT_EVENTS, [(event.actor_id, event) for event in events])


def _event(
    actor_id: int, post_id: int, row: asyncpg.Record, kind: events_pb2.EngagementEventKind.ValueType
) -> events_pb2.EngagementEvent:
    return events_pb2.EngagementEvent(
        actor_id=actor_id, post_id=post_id, author_id=row[0], kind=kind, occurred_at_ms=row[2]
    )


class OldFeedback:
    """Feedback from which nobody learns any more."""

    def __init__(self, database: Database, days: int) -> None:
        self._database = database
        self._days = days

    async def remove(self, at_most: int) -> int:
        """Remove some. Returns how many."""
        async with self._database.connection() as connection:
            status = await connection.execute(_PURGE_FEEDBACK, at_most, self._days)
        return int(status.removeprefix("DELETE "))
