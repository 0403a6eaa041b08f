"""Changes of follows in PostgreSQL, each in one transaction with its counts and its events.

Locks are taken in a fixed order, so that changes wait for one another but never in a circle: first the actor's own row
of `users`, which puts all changes of one actor's followees in a line, then rows of `follower_counts` by user id. Nothing
of a followee is locked but the one part of their count that the actor belongs to.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import asyncpg
from feed.events.v1 import events_pb2
from feedkit import kafka, outbox
from feedkit.errors import Unavailable
from feedkit.postgres import Connection, Database

from graph_service.follower_counts import shard_of
from graph_service.follows import FollowResult, Judge, Outcome, Standing

Answer = TypeVar("Answer")

ATTEMPTS = 3
_CONTENTION = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_PAUSE_SECONDS = 0.05

_LOCK_ACTOR = "SELECT following_count FROM users WHERE id = $1 FOR NO KEY UPDATE"

# A statement of its own, because only one that starts when the lock is held sees what the last holder wrote.
_STANDING = """
SELECT
    ARRAY(SELECT id FROM users WHERE id = ANY ($2::bigint[])) AS existing,
    ARRAY(SELECT followee_id FROM follows WHERE follower_id = $1 AND followee_id = ANY ($2::bigint[])) AS followed
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

_UNFOLLOW = """
WITH ended AS (
    DELETE FROM follows WHERE follower_id = $1 AND followee_id = $2
), counted AS (
    UPDATE users SET following_count = following_count - 1 WHERE id = $1
)
UPDATE follower_counts SET count = count - 1 WHERE user_id = $2 AND shard = $3
"""


class FollowStore:
    """Makes and ends follows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def follow(self, actor_id: int, followee_ids: Sequence[int], judge: Judge) -> list[FollowResult] | None:
        async def change(connection: Connection, standing: Standing) -> list[FollowResult]:
            results = judge(standing)
            new = [result.followee_id for result in results if result.outcome is Outcome.FOLLOWED]
            if new:
                await _tell(connection, actor_id, new, events_pb2.GRAPH_EVENT_KIND_FOLLOWED)
                await connection.execute(_FOLLOW, actor_id, new, shard_of(actor_id))
            return results

        return await self._change(actor_id, followee_ids, change)

    async def unfollow(self, actor_id: int, followee_id: int) -> Standing | None:
        async def change(connection: Connection, standing: Standing) -> Standing:
            if followee_id in standing.followed:
                await _tell(connection, actor_id, [followee_id], events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED)
                await connection.execute(_UNFOLLOW, actor_id, followee_id, shard_of(actor_id))
            return standing

        return await self._change(actor_id, [followee_id], change)

    async def _change(
        self,
        actor_id: int,
        followee_ids: Sequence[int],
        change: Callable[[Connection, Standing], Awaitable[Answer]],
    ) -> Answer | None:
        """Make a change under the actor's lock; None for an unknown actor.

        The order of locks leaves no deadlock among changes made here. Those with other hands on the tables, and
        conflicts where the database is set to a stricter isolation, are tried again a few times.
        """
        async with self._database.connection() as connection:
            for _ in range(ATTEMPTS):
                try:
                    async with connection.transaction():
                        standing = await _lock(connection, actor_id, followee_ids)
                        return None if standing is None else await change(connection, standing)
                except _CONTENTION:
                    await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 (no secret)
        raise Unavailable.of_dependency("postgres", f"{ATTEMPTS} attempts met other changes of the same rows")


async def _lock(connection: Connection, actor_id: int, followee_ids: Sequence[int]) -> Standing | None:
    following_count = await connection.fetchval(_LOCK_ACTOR, actor_id)
    if following_count is None:
        return None
    row = (await connection.fetch(_STANDING, actor_id, followee_ids))[0]
    return Standing(following_count, frozenset(row["existing"]), frozenset(row["followed"]))


async def _tell(
    connection: Connection, follower_id: int, followee_ids: Sequence[int], kind: events_pb2.GraphEventKind.ValueType
) -> None:
    # Before the counts are touched, so that their rows, which others wait for, are locked as late as can be.
    events = [
        (follower_id, events_pb2.GraphEvent(follower_id=follower_id, followee_id=followee_id, kind=kind))
        for followee_id in followee_ids
    ]
    await outbox.append(connection, kafka.GRAPH_EVENTS, events)
