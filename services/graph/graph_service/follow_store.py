"""Follows in PostgreSQL: how they are made and ended. `edge_store` tells of the locks."""

from collections.abc import Sequence

from feed.events.v1 import events_pb2
from feedkit.postgres import Connection, Database

from graph_service import edge_store
from graph_service.follower_counts import shard_of
from graph_service.follows import FollowResult, Judge, Outcome, Situation
from graph_service.users import Standing

_LOCK_ACTOR = "SELECT following_count, standing FROM users WHERE id = $1 FOR NO KEY UPDATE"

# A statement of its own, because only one that starts when the lock is held sees what the last holder wrote. Those who
# block the actor are probed one by one: where a plan went through all of them instead, they might be millions.
_SITUATION = """
SELECT
    ARRAY(SELECT id FROM users WHERE id = ANY ($2::bigint[]) AND standing <> 2) AS existing,
    ARRAY(SELECT id FROM users WHERE id = ANY ($2::bigint[]) AND standing = 1) AS suspended,
    ARRAY(SELECT followee_id FROM follows WHERE follower_id = $1 AND followee_id = ANY ($2::bigint[])) AS followed,
    ARRAY(SELECT blocked_id FROM blocks WHERE blocker_id = $1 AND blocked_id = ANY ($2::bigint[])) AS blocking,
    ARRAY(
        SELECT asked.id
        FROM unnest($2::bigint[]) AS asked (id)
        CROSS JOIN LATERAL (
            SELECT FROM blocks WHERE blocker_id = asked.id AND blocked_id = $1 LIMIT 1
        ) AS block
    ) AS blocked_by
"""

# Sequence numbers are drawn in the order asked, so the last one asked for is the newest follow.
_FOLLOW = """
WITH made AS (
    INSERT INTO follows (follower_id, followee_id)
    SELECT $1, id FROM unnest($2::bigint[]) WITH ORDINALITY AS followee (id, place) ORDER BY place
), counted AS (
    UPDATE users SET following_count = following_count + cardinality($2::bigint[]) WHERE id = $1
)
INSERT INTO follower_counts (user_id, shard, count)
SELECT id, $3, 1 FROM unnest($2::bigint[]) AS followee (id) ORDER BY id
ON CONFLICT (user_id, shard) DO UPDATE SET count = follower_counts.count + 1
"""


class FollowStore:
    """Makes and ends follows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def follow(self, actor_id: int, followee_ids: Sequence[int], judge: Judge) -> list[FollowResult] | None:
        async def make(connection: Connection) -> list[FollowResult] | None:
            situation = await _lock(connection, actor_id, followee_ids)
            if situation is None:
                return None
            results = judge(situation)
            new = [result.followee_id for result in results if result.outcome is Outcome.FOLLOWED]
            if new:
                followed = events_pb2.GRAPH_EVENT_KIND_FOLLOWED
                await edge_store.tell(connection, [((actor_id, followee_id), followed) for followee_id in new])
                await connection.execute(_FOLLOW, actor_id, new, shard_of(actor_id))
            return results

        return await edge_store.change(self._database, make)

    async def unfollow(self, actor_id: int, followee_id: int) -> Situation | None:
        edge = (actor_id, followee_id)

        async def make(connection: Connection) -> Situation | None:
            situation = await _lock(connection, actor_id, [followee_id])
            # What leads to a deleted user is left to their erasure.
            if situation and followee_id in situation.existing and followee_id in situation.followed:
                await edge_store.tell(connection, [(edge, events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED)])
                await edge_store.end_follows(connection, [edge])
            return situation

        return await edge_store.change(self._database, make)


async def _lock(connection: Connection, actor_id: int, followee_ids: Sequence[int]) -> Situation | None:
    """Lock the actor, and tell how things stand; None for an unknown one."""
    actor = await connection.fetchrow(_LOCK_ACTOR, actor_id)
    if actor is None or actor["standing"] == Standing.DELETED:
        return None
    [row] = await connection.fetch(_SITUATION, actor_id, followee_ids)
    return Situation(
        actor["following_count"],
        existing=frozenset(row["existing"]),
        followed=frozenset(row["followed"]),
        suspended=frozenset(row["suspended"]),
        apart=frozenset(row["blocking"]) | frozenset(row["blocked_by"]),
        actor_suspended=actor["standing"] == Standing.SUSPENDED,
    )
