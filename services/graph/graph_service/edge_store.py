"""What all changes of users share: the order of their locks, their events, and how follows end.

Each change is one transaction with its counts and its events. Locks are taken in a fixed order, so that changes wait for
one another but never in a circle:

1. rows of `users` by id: the actor's own, under which all changes of one actor's follows, favourites, blocks, mutes and
   view happen one after another; where a block ends what the other one follows, both; where a user is erased, those of
   followers;
2. rows of `follower_counts` by user id and part;
3. rows of `blocks` and `mutes` by their two users, and of `view_choices` by their number, where many are deleted at once.

Nothing of a followee is locked but the one part of their count that the follower belongs to.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import asyncpg
from feed.events.v1 import events_pb2
from feedkit import kafka, outbox
from feedkit.errors import Unavailable
from feedkit.postgres import Connection, Database

from graph_service.follower_counts import shard_of
from graph_service.users import Standing

Answer = TypeVar("Answer")
Edge = tuple[int, int]
"""Who follows, blocks or mutes, and whom."""
Event = tuple[Edge, events_pb2.GraphEventKind.ValueType]

ATTEMPTS = 3
_CONTENTION = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_PAUSE_SECONDS = 0.05

_LOCK_USERS = "SELECT id, standing FROM users WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE"

# Parts of counts are locked in their order before any is changed. How many follows there are of each comes from arguments
# alone, so that it is right whatever somebody else did to a part while it was waited for.
_END_FOLLOWS = """
WITH edge AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[]) AS edge (follower_id, followee_id, shard)
), ended AS (
    DELETE FROM follows f USING edge WHERE f.follower_id = edge.follower_id AND f.followee_id = edge.followee_id
), counted AS (
    UPDATE users u SET following_count = u.following_count - gone.count
    FROM (SELECT follower_id, count(*) FROM edge GROUP BY follower_id) AS gone
    WHERE u.id = gone.follower_id
), part AS MATERIALIZED (
    SELECT c.user_id, c.shard, gone.count AS gone
    FROM follower_counts c
    JOIN (SELECT followee_id, shard, count(*) FROM edge GROUP BY followee_id, shard) AS gone
        ON c.user_id = gone.followee_id AND c.shard = gone.shard
    ORDER BY c.user_id, c.shard
    FOR NO KEY UPDATE OF c
)
UPDATE follower_counts c SET count = c.count - part.gone
FROM part WHERE c.user_id = part.user_id AND c.shard = part.shard
"""


async def change(database: Database, make: Callable[[Connection], Awaitable[Answer]]) -> Answer:
    """Make a change in a transaction of its own; `make` may be called more than once.

    The order of locks leaves no deadlock among changes made here. Those with other hands on the tables, and conflicts where
    the database is set to a stricter isolation, are tried again a few times. Raises Unavailable after that.
    """
    async with database.connection() as connection:
        for _ in range(ATTEMPTS):
            try:
                async with connection.transaction():
                    return await make(connection)
            except _CONTENTION:
                await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 (no secret)
    raise Unavailable.of_dependency("postgres", f"{ATTEMPTS} attempts met other changes of the same rows")


async def lock_users(connection: Connection, user_ids: Sequence[int]) -> Mapping[int, Standing]:
    """Lock users, and tell how the accounts of those who exist stand; a deleted one is told of, too.

    Only a statement that starts when the locks are held sees what their last holders wrote.
    """
    return {row["id"]: Standing(row["standing"]) for row in await connection.fetch(_LOCK_USERS, user_ids)}


async def tell(connection: Connection, events: Sequence[Event]) -> None:
    """Append events of edges to the outbox, keyed by the first of the two.

    To be called before counts are touched, so that their rows, which others wait for, are locked as late as can be.
    """
    messages = [
        (edge[0], events_pb2.GraphEvent(follower_id=edge[0], followee_id=edge[1], kind=kind)) for edge, kind in events
    ]
    await outbox.append(connection, kafka.GRAPH_EVENTS, messages)


async def end_follows(connection: Connection, edges: Sequence[Edge]) -> None:
    """End follows that stand, with their counts. The rows of all followers are locked; events are left to the caller."""
    followers, followees = [edge[0] for edge in edges], [edge[1] for edge in edges]
    await connection.execute(_END_FOLLOWS, followers, followees, [shard_of(follower) for follower in followers])
