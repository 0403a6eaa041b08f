"""Mutes in PostgreSQL. `edge_store` tells of the locks."""

from collections.abc import Callable

from feed.events.v1 import events_pb2
from feedkit.postgres import Connection, Database

from graph_service import edge_store
from graph_service.pairs import Pair

_PAIR = """
SELECT
    ARRAY(SELECT id FROM users WHERE id IN ($1, $2) AND standing <> 2) AS existing,
    EXISTS (SELECT FROM mutes WHERE muter_id = $1 AND muted_id = $2) AS stands,
    (SELECT count(*) FROM mutes WHERE muter_id = $1) AS count
"""

_MUTE = "INSERT INTO mutes (muter_id, muted_id) VALUES ($1, $2)"

_UNMUTE = "DELETE FROM mutes WHERE muter_id = $1 AND muted_id = $2"


class MuteStore:
    """Implements `mutes.MuteStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def mute(self, actor_id: int, muted_id: int, judge: Callable[[Pair], bool]) -> bool:
        async def make(connection: Connection) -> bool:
            new = judge(await _lock(connection, actor_id, muted_id))
            if new:
                await edge_store.tell(connection, [((actor_id, muted_id), events_pb2.GRAPH_EVENT_KIND_MUTED)])
                await connection.execute(_MUTE, actor_id, muted_id)
            return new

        return await edge_store.change(self._database, make)

    async def unmute(self, actor_id: int, muted_id: int, check: Callable[[Pair], None]) -> bool:
        async def make(connection: Connection) -> bool:
            pair = await _lock(connection, actor_id, muted_id)
            check(pair)
            if pair.stands:
                await edge_store.tell(connection, [((actor_id, muted_id), events_pb2.GRAPH_EVENT_KIND_UNMUTED)])
                await connection.execute(_UNMUTE, actor_id, muted_id)
            return pair.stands

        return await edge_store.change(self._database, make)


async def _lock(connection: Connection, actor_id: int, muted_id: int) -> Pair:
    await edge_store.lock_users(connection, [actor_id])
    [(existing, stands, count)] = await connection.fetch(_PAIR, actor_id, muted_id)
    return Pair(frozenset(existing), stands, count)
