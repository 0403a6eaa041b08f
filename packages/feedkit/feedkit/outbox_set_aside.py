"""What Kafka will never take: events that were moved out of the outbox, with the reason, until an operator puts them back.

The table, which each service that writes events makes in its migrations:

    CREATE TABLE outbox_set_aside (
        id           bigint      PRIMARY KEY,  -- what it had in the outbox
        topic        text        NOT NULL,
        key          text        NOT NULL,
        type         text        NOT NULL,
        payload      bytea       NOT NULL,
        headers      jsonb       NOT NULL,
        created_at   timestamptz NOT NULL,
        reason       text        NOT NULL,  -- what Kafka said
        set_aside_at timestamptz NOT NULL DEFAULT now()
    );
"""

from collections.abc import Sequence
from typing import NamedTuple

from feedkit.postgres import Database

# Whoever has lost the shard meanwhile moves nothing that another has published.
_SET_ASIDE = """
WITH gone AS (DELETE FROM outbox WHERE shard = $1 AND id = $2 RETURNING *)
INSERT INTO outbox_set_aside (id, topic, key, type, payload, headers, created_at, reason)
SELECT id, topic, key, type, payload, headers, created_at, $3 FROM gone
"""
_PAGE = """
SELECT id, topic, key, type, octet_length(payload) AS payload_bytes, reason,
    (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms,
    (extract(epoch FROM set_aside_at) * 1000)::bigint AS set_aside_at_ms
FROM outbox_set_aside WHERE id > $1 ORDER BY id LIMIT $2
"""
_PUT_BACK = """
WITH gone AS (DELETE FROM outbox_set_aside WHERE id = ANY($1::bigint[]) RETURNING *), back AS (
    INSERT INTO outbox (topic, key, type, payload, headers)
    SELECT topic, key, type, payload, headers FROM gone ORDER BY id
)
SELECT id FROM gone ORDER BY id
"""


class SetAsideEvent(NamedTuple):
    """An event that Kafka will never take."""

    id: int
    """What it had in the outbox."""
    topic: str
    key: str
    type: str
    payload_bytes: int
    reason: str
    created_at_ms: int
    """When it was committed, in Unix milliseconds."""
    set_aside_at_ms: int
    """In Unix milliseconds."""


async def set_aside(database: Database, shard: int, event_id: int, reason: str) -> None:
    """Move an event out of the outbox, if it is still there."""
    async with database.connection() as connection:
        await connection.execute(_SET_ASIDE, shard, event_id, reason)


async def page(database: Database, after: int, size: int) -> list[SetAsideEvent]:
    """The first events whose ids are larger than one."""
    async with database.connection() as connection:
        return [SetAsideEvent(*row) for row in await connection.fetch(_PAGE, after, size)]


async def put_back(database: Database, event_ids: Sequence[int]) -> list[int]:
    """Put events back into the outbox, as its newest; gives the ids of those that were set aside."""
    async with database.connection() as connection:
        return [row[0] for row in await connection.fetch(_PUT_BACK, event_ids)]
