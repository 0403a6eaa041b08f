"""Erasing users in PostgreSQL. `edge_store` tells of the locks."""

from collections.abc import Sequence

from feed.events.v1 import events_pb2
from feedkit.postgres import Connection, Database

from graph_service import edge_store, pulled_store
from graph_service.edge_store import Edge

_IS_DELETED = "SELECT EXISTS (SELECT FROM users WHERE id = $1 AND standing = 2)"

# In the order of an index, so that whatever the statistics say of a user, no plan reads all follows for a few.
_FOLLOWS_OF = """
SELECT follower_id, followee_id FROM follows WHERE follower_id = $1 ORDER BY seq DESC LIMIT $2
"""
_FOLLOWS_TO = """
SELECT follower_id, followee_id FROM follows WHERE followee_id = $1 ORDER BY seq DESC LIMIT $2
"""

# Each pair is looked up alone: a plan that went through all followers instead would be a celebrity's.
_STANDING_FOLLOWS = """
SELECT edge.follower_id, edge.followee_id
FROM unnest($1::bigint[], $2::bigint[]) AS edge (follower_id, followee_id)
CROSS JOIN LATERAL (
    SELECT FROM follows f WHERE f.follower_id = edge.follower_id AND f.followee_id = edge.followee_id LIMIT 1
) AS follow
"""

# Rows are locked in one order, so that those who erase two users who block one another do not wait in a circle.
_DELETE_EDGES = """
WITH found AS (
    (SELECT {actor}, {other} FROM {edges} WHERE {actor} = $1 ORDER BY seq DESC LIMIT $2)
    UNION ALL
    (SELECT {actor}, {other} FROM {edges} WHERE {other} = $1 ORDER BY seq DESC LIMIT $2)
    LIMIT $2
), locked AS MATERIALIZED (
    SELECT e.{actor}, e.{other} FROM {edges} e JOIN found USING ({actor}, {other})
    ORDER BY e.{actor}, e.{other} FOR UPDATE OF e
), gone AS (
    DELETE FROM {edges} e USING locked
    WHERE e.{actor} = locked.{actor} AND e.{other} = locked.{other}
    RETURNING 1
)
SELECT count(*) FROM gone
"""
_DELETE_BLOCKS = _DELETE_EDGES.format(edges="blocks", actor="blocker_id", other="blocked_id")
_DELETE_MUTES = _DELETE_EDGES.format(edges="mutes", actor="muter_id", other="muted_id")

# Locked in one order as well, for those who erase the same user at once.
_DELETE_VIEW_CHOICES = """
WITH locked AS MATERIALIZED (
    SELECT user_id, seq FROM view_choices WHERE user_id = $1 ORDER BY seq LIMIT $2 FOR UPDATE
), gone AS (
    DELETE FROM view_choices c USING locked WHERE c.user_id = locked.user_id AND c.seq = locked.seq RETURNING 1
)
SELECT count(*) FROM gone
"""

_DELETE_HOME_VIEW = "UPDATE users SET home_view = 0 WHERE id = $1 AND home_view <> 0"

_DELETE_ACTIVITY = "DELETE FROM activity WHERE user_id = $1"

# A part that counts somebody belongs to a follow that has come to stand meanwhile, and goes with it.
_DELETE_COUNTS = """
WITH part AS MATERIALIZED (
    SELECT user_id, shard FROM follower_counts WHERE user_id = $1 AND count = 0 ORDER BY shard FOR UPDATE
)
DELETE FROM follower_counts c USING part WHERE c.user_id = part.user_id AND c.shard = part.shard AND c.count = 0
"""

# The first of an index each time: whether any row is there at all might be looked up without one, where statistics say that
# there are many.
_NONE_LEFT = "(SELECT seq FROM {edges} WHERE {end} = $1 ORDER BY seq DESC LIMIT 1) IS NULL"
_ENDS = (
    ("follows", "follower_id"),
    ("follows", "followee_id"),
    ("blocks", "blocker_id"),
    ("blocks", "blocked_id"),
    ("mutes", "muter_id"),
    ("mutes", "muted_id"),
)
_IS_ERASED = f"""
SELECT {" AND ".join(_NONE_LEFT.format(edges=edges, end=end) for edges, end in _ENDS)}
    AND NOT EXISTS (SELECT FROM follower_counts WHERE user_id = $1)
    AND NOT EXISTS (SELECT FROM view_choices WHERE user_id = $1)
    AND NOT EXISTS (SELECT FROM users WHERE id = $1 AND home_view <> 0)
    AND NOT EXISTS (SELECT FROM activity WHERE user_id = $1)
    AND NOT EXISTS (SELECT FROM pulled_authors WHERE author_id = $1)
"""  # noqa: S608 (our own text)


class ErasureStore:
    """Implements `erasure.ErasureStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def is_deleted(self, user_id: int) -> bool:
        async with self._database.connection() as connection:
            return await connection.fetchval(_IS_DELETED, user_id)

    async def end_follows_of(self, user_id: int, limit: int) -> int:
        async def make(connection: Connection) -> int:
            await edge_store.lock_users(connection, [user_id])
            edges = [(a, b) for a, b in await connection.fetch(_FOLLOWS_OF, user_id, limit)]
            return await _end(connection, edges)

        return await edge_store.change(self._database, make)

    async def end_follows_to(self, user_id: int, limit: int) -> int:
        async def make(connection: Connection) -> int:
            found = await connection.fetch(_FOLLOWS_TO, user_id, limit)
            followers = [follower_id for follower_id, _ in found]
            await edge_store.lock_users(connection, followers)
            # Their follows cannot change any more; they may have before.
            standing = await connection.fetch(_STANDING_FOLLOWS, followers, [user_id] * len(followers))
            return await _end(connection, [(a, b) for a, b in standing])

        return await edge_store.change(self._database, make)

    async def delete_blocks(self, user_id: int, limit: int) -> int:
        async with self._database.connection() as connection:
            return await connection.fetchval(_DELETE_BLOCKS, user_id, limit)

    async def delete_mutes(self, user_id: int, limit: int) -> int:
        async with self._database.connection() as connection:
            return await connection.fetchval(_DELETE_MUTES, user_id, limit)

    async def delete_view_choices(self, user_id: int, limit: int) -> int:
        async with self._database.connection() as connection:
            return await connection.fetchval(_DELETE_VIEW_CHOICES, user_id, limit)

    async def delete_remains(self, user_id: int) -> None:
        async with self._database.connection() as connection:
            await connection.execute(_DELETE_HOME_VIEW, user_id)
            await connection.execute(_DELETE_ACTIVITY, user_id)
            await connection.execute(_DELETE_COUNTS, user_id)
            await connection.execute(pulled_store.LEAVE, user_id, None)

    async def is_erased(self, user_id: int) -> bool:
        async with self._database.connection() as connection:
            return await connection.fetchval(_IS_ERASED, user_id)


async def _end(connection: Connection, edges: Sequence[Edge]) -> int:
    """End follows whose followers are locked, with their events."""
    if edges:
        unfollowed = events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED
        await edge_store.tell(connection, [(edge, unfollowed) for edge in edges])
        await edge_store.end_follows(connection, edges)
    return len(edges)
