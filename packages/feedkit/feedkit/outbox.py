"""The outbox: events that are committed together with the change that they tell of.

The table, which each service that writes events makes in its migrations:

    CREATE TABLE outbox (
        id         bigint GENERATED ALWAYS AS IDENTITY,
        topic      text        NOT NULL,
        key        text        NOT NULL,  -- the record's key: what keeps its order
        type       text        NOT NULL,  -- full name of the protobuf message
        payload    bytea       NOT NULL,
        headers    jsonb       NOT NULL,  -- trace context of the request that caused the event
        created_at timestamptz NOT NULL DEFAULT now(),
        shard      smallint    NOT NULL GENERATED ALWAYS AS ((hashtext(key) & 7)::smallint) STORED,
        PRIMARY KEY (shard, id)
    );

Ids are taken before commit, so a smaller one may become visible after a larger one: whoever reads the table must not
remember "the last id seen". Relays publish the rows and delete them (`feedkit.outbox_relay`); a trigger on the table
notifies them. What Kafka will never take is set aside (`feedkit.outbox_set_aside`).
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from feed.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from google.protobuf.message import Message

from feedkit import outbox_set_aside, telemetry
from feedkit.errors import InvalidArgument
from feedkit.postgres import Connection, Database

SERVICE = outbox_pb2.DESCRIPTOR.services_by_name["OutboxService"]

_INSERT = """
INSERT INTO outbox (topic, key, type, payload, headers)
SELECT $1, key, type, payload, $2::jsonb FROM unnest($3::text[], $4::text[], $5::bytea[]) AS event (key, type, payload)
"""
_BACKLOG = """
SELECT count(*), coalesce((extract(epoch FROM clock_timestamp() - min(created_at)) * 1000)::bigint, 0),
    (SELECT count(*) FROM outbox_set_aside)
FROM outbox
"""
_PAGE_SIZE = 100


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


class Backlog(NamedTuple):
    """What waits in an outbox."""

    rows: int
    oldest_age_ms: int
    """How long the oldest row has waited; 0 if none does."""
    set_aside: int
    """How many events wait for an operator, because Kafka will never take them; not among the rows."""


async def backlog(database: Database) -> Backlog:
    """Tell what waits. It reads all of the table, which is short unless the broker is away."""
    async with database.connection() as connection:
        return Backlog(*(await connection.fetch(_BACKLOG))[0])


class OutboxServicer(outbox_pb2_grpc.OutboxServiceServicer):
    """Serves `feed.outbox.v1.OutboxService`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def GetBacklog(self, request: outbox_pb2.GetBacklogRequest, context: object) -> outbox_pb2.GetBacklogResponse:
        """What waits in the outbox."""
        return outbox_pb2.GetBacklogResponse(**(await backlog(self._database))._asdict())

    async def ListSetAside(
        self, request: outbox_pb2.ListSetAsideRequest, context: object
    ) -> outbox_pb2.ListSetAsideResponse:
        """What Kafka will never take."""
        size = request.page_size or _PAGE_SIZE
        events = await outbox_set_aside.page(self._database, _after(request.page_token), size + 1)
        return outbox_pb2.ListSetAsideResponse(
            events=[outbox_pb2.SetAsideEvent(**event._asdict()) for event in events[:size]],
            next_page_token=str(events[size - 1].id) if len(events) > size else "",
        )

    async def ReplaySetAside(
        self, request: outbox_pb2.ReplaySetAsideRequest, context: object
    ) -> outbox_pb2.ReplaySetAsideResponse:
        """Publish it all the same."""
        return outbox_pb2.ReplaySetAsideResponse(ids=await outbox_set_aside.put_back(self._database, request.ids))


def _after(page_token: str) -> int:
    """The id after which a page begins."""
    if not page_token:
        return 0
    if not (page_token.isascii() and page_token.isdecimal() and int(page_token) < 1 << 63):
        raise InvalidArgument.of_field("page_token", "is none of this method's")
    return int(page_token)
