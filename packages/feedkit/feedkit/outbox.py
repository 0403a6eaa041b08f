"""The outbox: events that are committed together with the change that they tell of.

The table, which each service that writes events makes in its own first migration:

    CREATE TABLE outbox (
        id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        topic      text        NOT NULL,
        key        text        NOT NULL,  -- the record's key: what keeps its order
        type       text        NOT NULL,  -- full name of the protobuf message
        payload    bytea       NOT NULL,
        headers    jsonb       NOT NULL,  -- trace context of the request that caused the event
        created_at timestamptz NOT NULL DEFAULT now()
    );

Ids are taken before commit, so a smaller one may become visible after a larger one: whoever reads the table must not
remember "the last id seen".
"""

import json
from collections.abc import Sequence

from google.protobuf.message import Message

from feedkit import telemetry
from feedkit.postgres import Connection

POST_EVENTS = "feed.post.events.v1"
GRAPH_EVENTS = "feed.graph.events.v1"

_INSERT = """
INSERT INTO outbox (topic, key, type, payload, headers)
SELECT $1, key, type, payload, $2::jsonb FROM unnest($3::text[], $4::text[], $5::bytea[]) AS event (key, type, payload)
"""


async def append(connection: Connection, topic: str, events: Sequence[tuple[int, Message]]) -> None:
    """Append events, each with the id that keys it, in the transaction that `connection` has open.

    They belong to the request being served, whose trace context goes with them.
    """
    if not events:
        return
    headers: dict[str, str] = {}
    telemetry.inject(headers)
    await connection.execute(
        _INSERT,
        topic,
        json.dumps(headers),
        [str(key) for key, _ in events],
        [event.DESCRIPTOR.full_name for _, event in events],
        [event.SerializeToString() for _, event in events],
    )
