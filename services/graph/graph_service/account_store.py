"""The standing of accounts in PostgreSQL. `edge_store` tells of the locks."""

from collections.abc import Collection, Mapping

from feed.events.v1 import events_pb2
from feedkit import kafka, outbox
from feedkit.postgres import Connection, Database

from graph_service import edge_store
from graph_service.users import Standing

_SET = "UPDATE users SET standing = $2::smallint, name = CASE WHEN $2::smallint = 2 THEN '' ELSE name END WHERE id = $1"

_EVENTS: Mapping[Standing, events_pb2.UserEventKind.ValueType] = {
    Standing.ACTIVE: events_pb2.USER_EVENT_KIND_RESTORED,
    Standing.SUSPENDED: events_pb2.USER_EVENT_KIND_SUSPENDED,
    Standing.DELETED: events_pb2.USER_EVENT_KIND_DELETED,
}


class AccountStore:
    """Implements `accounts.AccountStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set_standing(self, user_id: int, of: Collection[Standing], standing: Standing) -> Standing | None:
        async def make(connection: Connection) -> Standing | None:
            was = (await edge_store.lock_users(connection, [user_id])).get(user_id)
            if was in of:
                event = events_pb2.UserEvent(user_id=user_id, kind=_EVENTS[standing])
                await outbox.append(connection, kafka.GRAPH_EVENTS, [(user_id, event)])
                await connection.execute(_SET, user_id, standing.value)
            return was

        return await edge_store.change(self._database, make)
