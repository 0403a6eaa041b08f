"""Blocks in PostgreSQL. `edge_store` tells of the locks."""

from collections.abc import Callable

from feed.events.v1 import events_pb2
from feedkit.postgres import Connection, Database

from graph_service import edge_store
from graph_service.edge_store import Edge, Event
from graph_service.pairs import Pair

_PAIR = """
SELECT
    ARRAY(SELECT id FROM users WHERE id IN ($1, $2) AND standing <> 2) AS existing,
    EXISTS (SELECT FROM blocks WHERE blocker_id = $1 AND blocked_id = $2) AS stands,
    (SELECT count(*) FROM blocks WHERE blocker_id = $1) AS count
"""

_FOLLOWS_BETWEEN = """
SELECT follower_id, followee_id FROM follows
WHERE (follower_id, followee_id) IN (($1::bigint, $2::bigint), ($2, $1))
"""

_BLOCK = "INSERT INTO blocks (blocker_id, blocked_id) VALUES ($1, $2)"

_UNBLOCK = "DELETE FROM blocks WHERE blocker_id = $1 AND blocked_id = $2"


class BlockStore:
    """Implements `blocks.BlockStore`.

    Whoever follows holds their own row and looks for blocks after that. A block holds the rows of both, and looks for
    follows after that. So of the two whichever comes later sees the other, and no follow is left beside a block.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def block(self, actor_id: int, blocked_id: int, judge: Callable[[Pair], bool]) -> bool:
        async def make(connection: Connection) -> bool:
            await edge_store.lock_users(connection, [actor_id, blocked_id])
            new = judge(await _pair(connection, actor_id, blocked_id))
            if new:
                await _block(connection, (actor_id, blocked_id))
            return new

        return await edge_store.change(self._database, make)

    async def unblock(self, actor_id: int, blocked_id: int, check: Callable[[Pair], None]) -> bool:
        async def make(connection: Connection) -> bool:
            await edge_store.lock_users(connection, [actor_id])
            pair = await _pair(connection, actor_id, blocked_id)
            check(pair)
            if pair.stands:
                unblocked = events_pb2.GRAPH_EVENT_KIND_UNBLOCKED
                await edge_store.tell(connection, [((actor_id, blocked_id), unblocked)])
                await connection.execute(_UNBLOCK, actor_id, blocked_id)
            return pair.stands

        return await edge_store.change(self._database, make)


async def _pair(connection: Connection, actor_id: int, blocked_id: int) -> Pair:
    [(existing, stands, count)] = await connection.fetch(_PAIR, actor_id, blocked_id)
    return Pair(frozenset(existing), stands, count)


async def _block(connection: Connection, block: Edge) -> None:
    ended: list[Edge] = [(a, b) for a, b in await connection.fetch(_FOLLOWS_BETWEEN, *block)]
    events: list[Event] = [(edge, events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED) for edge in ended]
    await edge_store.tell(connection, [(block, events_pb2.GRAPH_EVENT_KIND_BLOCKED), *events])
    await connection.execute(_BLOCK, *block)
    if ended:
        await edge_store.end_follows(connection, ended)
