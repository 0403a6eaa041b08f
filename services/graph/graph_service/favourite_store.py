"""Favourites in PostgreSQL, which are marks on follows. `edge_store` tells of the locks."""

from collections.abc import Callable

from feed.events.v1 import events_pb2
from feedkit.postgres import Connection, Database

from graph_service import edge_store
from graph_service.favourites import Situation

_SITUATION = """
SELECT
    ARRAY(SELECT id FROM users WHERE id IN ($1, $2) AND standing <> 2) AS existing,
    (SELECT favourite FROM follows WHERE follower_id = $1 AND followee_id = $2) AS favourite,
    (SELECT count(*) FROM follows WHERE follower_id = $1 AND favourite) AS number
"""

_MARK = "UPDATE follows SET favourite = $3 WHERE follower_id = $1 AND followee_id = $2"


class FavouriteStore:
    """Implements `favourites.FavouriteStore`.

    Whatever ends a follow holds the row of the follower, as this does: so no mark is set on a follow that is ending.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def favour(self, actor_id: int, favourite_id: int, judge: Callable[[Situation], bool]) -> bool:
        async def make(connection: Connection) -> bool:
            new = judge(await _lock(connection, actor_id, favourite_id))
            if new:
                await edge_store.tell(connection, [((actor_id, favourite_id), events_pb2.GRAPH_EVENT_KIND_FAVOURED)])
                await connection.execute(_MARK, actor_id, favourite_id, True)
            return new

        return await edge_store.change(self._database, make)

    async def unfavour(self, actor_id: int, favourite_id: int, check: Callable[[Situation], None]) -> bool:
        async def make(connection: Connection) -> bool:
            situation = await _lock(connection, actor_id, favourite_id)
            check(situation)
            if situation.favourite:
                await edge_store.tell(connection, [((actor_id, favourite_id), events_pb2.GRAPH_EVENT_KIND_UNFAVOURED)])
                await connection.execute(_MARK, actor_id, favourite_id, False)
            return situation.favourite

        return await edge_store.change(self._database, make)


async def _lock(connection: Connection, actor_id: int, favourite_id: int) -> Situation:
    await edge_store.lock_users(connection, [actor_id])
    [(existing, favourite, number)] = await connection.fetch(_SITUATION, actor_id, favourite_id)
    return Situation(frozenset(existing), favourite is not None, bool(favourite), number)
