"""Blocks: what they end, what they refuse, and what becomes of follows at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import FailedPrecondition, NotFound
from feedkit.postgres import Database
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows, Outcome, Refusal
from graph_service.relationships import Relationship, Relationships
from graph_service.store import Store

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
LIMIT = 3
NOBODY = 2**63 - 1
FOLLOWED = events_pb2.GRAPH_EVENT_KIND_FOLLOWED
UNFOLLOWED = events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED
BLOCKED = events_pb2.GRAPH_EVENT_KIND_BLOCKED
UNBLOCKED = events_pb2.GRAPH_EVENT_KIND_UNBLOCKED


@pytest.fixture
def follows(database: Database, caches: CacheStore) -> Follows:
    return Follows(FollowStore(database), caches, 5000)


@pytest.fixture
def blocks(database: Database, caches: CacheStore) -> Blocks:
    return Blocks(BlockStore(database), caches, LIMIT)


async def events_of(sql: Sql, *users: int) -> list[tuple[int, int, int]]:
    """(actor, the other one, kind) of each event that is keyed by one of the users, in the order written."""
    rows = await sql.fetch("SELECT payload FROM outbox WHERE key = ANY ($1) ORDER BY id", list(map(str, users)))
    events = [events_pb2.GraphEvent.FromString(row["payload"]) for row in rows]
    return [(event.follower_id, event.followee_id, event.kind) for event in events]


async def counts_of(store: Store, *user_ids: int) -> list[tuple[int, int]]:
    """(followers, following) of each user."""
    users = {user.id: user for user in await store.users(list(user_ids))}
    return [(users[user_id].follower_count, users[user_id].following_count) for user_id in user_ids]


async def test_a_block_ends_the_follows_between_the_two_and_no_others(
    follows: Follows, blocks: Blocks, store: Store, make_users: MakeUsers, sql: Sql
):
    a, b, c = await make_users(3)
    await follows.follow_many(a, [b, c])
    await follows.follow(b, a)
    await follows.follow(c, b)
    await sql.execute("DELETE FROM outbox")
    assert await blocks.block(a, b)
    assert await counts_of(store, a, b, c) == [(0, 1), (1, 0), (1, 1)]
    assert sorted(await events_of(sql, a, b)) == sorted([(a, b, BLOCKED), (a, b, UNFOLLOWED), (b, a, UNFOLLOWED)])


@pytest.mark.parametrize("follower", [0, 1])
async def test_a_block_ends_a_follow_in_either_direction(
    follows: Follows, blocks: Blocks, store: Store, make_users: MakeUsers, follower: int
):
    pair = await make_users(2)
    await follows.follow(pair[follower], pair[1 - follower])
    await blocks.block(*pair)
    assert await counts_of(store, *pair) == [(0, 0), (0, 0)]


async def test_only_real_changes_make_events(blocks: Blocks, make_users: MakeUsers, sql: Sql):
    a, b = await make_users(2)
    changed = [
        await call(a, b) for call in (blocks.unblock, blocks.block, blocks.block, blocks.unblock, blocks.unblock)
    ]
    assert changed == [False, True, False, True, False]
    assert await events_of(sql, a, b) == [(a, b, BLOCKED), (a, b, UNBLOCKED)]


async def test_neither_can_follow_the_other_until_the_block_ends(
    follows: Follows, blocks: Blocks, make_users: MakeUsers
):
    a, b, c = await make_users(3)
    await blocks.block(a, b)
    for actor, other in ((a, b), (b, a)):
        with pytest.raises(FailedPrecondition) as caught:
            await follows.follow(actor, other)
        assert (caught.value.reason, caught.value.metadata) == ("BLOCKED", {"user_id": str(other)})
        results = await follows.follow_many(actor, [other, c])
        assert results == [(other, Outcome.REFUSED, Refusal.BLOCKED), (c, Outcome.FOLLOWED, None)]
    await blocks.unblock(a, b)
    assert await follows.follow(a, b) and await follows.follow(b, a)


async def test_a_block_the_other_way_stands_by_itself(follows: Follows, blocks: Blocks, make_users: MakeUsers):
    a, b = await make_users(2)
    await blocks.block(a, b)
    await blocks.block(b, a)
    await blocks.unblock(a, b)
    with pytest.raises(FailedPrecondition, match="blocks the other"):
        await follows.follow(a, b)


async def test_relationships_tell_who_blocks_whom(blocks: Blocks, store: Store, make_users: MakeUsers):
    a, b, c = await make_users(3)
    await blocks.block(a, b)
    await blocks.block(c, a)
    assert await Relationships(store).get_many(a, [b, c]) == [
        Relationship(b, following=False, followed_by=False, blocking=True),
        Relationship(c, following=False, followed_by=False, blocked_by=True),
    ]


async def test_nobody_blocks_themselves(blocks: Blocks, make_users: MakeUsers):
    [a] = await make_users(1)
    with pytest.raises(FailedPrecondition) as caught:
        await blocks.block(a, a)
    assert caught.value.reason == "CANNOT_BLOCK_SELF"


@pytest.mark.parametrize("method", ["block", "unblock"])
async def test_an_unknown_user_is_named(blocks: Blocks, make_users: MakeUsers, method: str):
    [a] = await make_users(1)
    for actor, other, field in ((a, NOBODY, "blocked_id"), (NOBODY, a, "actor_id")):
        with pytest.raises(NotFound) as caught:
            await getattr(blocks, method)(actor, other)
        assert caught.value.metadata == {"user_id": str(NOBODY), "field": field}


async def test_the_limit_refuses_a_new_block_but_not_one_that_stands(blocks: Blocks, make_users: MakeUsers):
    a, *others = await make_users(LIMIT + 2)
    for other in others[:LIMIT]:
        await blocks.block(a, other)
    with pytest.raises(FailedPrecondition) as caught:
        await blocks.block(a, others[LIMIT])
    assert (caught.value.reason, caught.value.metadata) == ("BLOCKING_LIMIT_REACHED", {"limit": str(LIMIT)})
    assert await blocks.block(a, others[0]) is False
    await blocks.unblock(a, others[0])
    assert await blocks.block(a, others[LIMIT])


async def test_a_follow_by_one_whom_very_many_block_does_not_read_them_all(
    caches: CacheStore, open_database: OpenDatabase, make_users: MakeUsers, sql: Sql
):
    actor, *others = await make_users(20_000)
    await sql.execute("INSERT INTO blocks SELECT id, $2 FROM unnest($1::bigint[]) id", others[100:], actor)
    await sql.execute("VACUUM ANALYZE blocks")
    database = await open_database(postgres_pool_size=1)
    reads = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'blocks'"
    before: int = await sql.fetchval(reads)
    results = await Follows(FollowStore(database), caches, 5000).follow_many(actor, others[:200])
    assert [result.refusal for result in results] == [None] * 100 + [Refusal.BLOCKED] * 100
    async with database.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    assert 100 <= await sql.fetchval(reads) - before < 1000


# --- at the same time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("follower", [0, 1])
async def test_a_follow_that_waited_for_a_block_is_refused(
    follows: Follows, blocks: Blocks, make_users: MakeUsers, sql: Sql, follower: int
):
    pair = await make_users(2)
    async with sql.transaction():
        await lock(sql, pair[1])
        blocking = asyncio.create_task(blocks.block(*pair))
        await until_waiting(sql, 1)
        following = asyncio.create_task(follows.follow(pair[follower], pair[1 - follower]))
        await until_waiting(sql, 2)
    assert await blocking
    with pytest.raises(FailedPrecondition, match="blocks the other"):
        await following


@pytest.mark.parametrize("follower", [0, 1])
async def test_a_block_that_waited_for_a_follow_ends_it(
    follows: Follows, blocks: Blocks, make_users: MakeUsers, sql: Sql, follower: int
):
    pair = await make_users(2)
    async with sql.transaction():
        await lock(sql, pair[follower])
        following = asyncio.create_task(follows.follow(pair[follower], pair[1 - follower]))
        await until_waiting(sql, 1)
        blocking = asyncio.create_task(blocks.block(*pair))
        await until_waiting(sql, 2)
    assert await following
    assert await blocking
    assert not await sql.fetch("SELECT FROM follows WHERE follower_id = ANY ($1)", pair)


async def test_two_who_block_one_another_at_once_do_not_wait_in_a_circle(
    open_database: OpenDatabase, caches: CacheStore, make_users: MakeUsers, sql: Sql
):
    a, b = await make_users(2)
    blocks = Blocks(BlockStore(await open_database(postgres_pool_size=4)), caches, LIMIT)
    async with sql.transaction():
        await lock(sql, a)
        both = [asyncio.create_task(blocks.block(*pair)) for pair in ((b, a), (a, b))]
        await until_waiting(sql, 2)
        # Neither has taken the higher row yet.
        await sql.execute("SELECT FROM users WHERE id = $1 FOR UPDATE NOWAIT", b)
    assert await asyncio.gather(*both) == [True, True]


async def lock(sql: Sql, user: int) -> None:
    await sql.execute("SELECT FROM users WHERE id = $1 FOR UPDATE", user)


async def until_waiting(sql: Sql, count: int) -> None:
    async with asyncio.timeout(10):
        # PostgreSQL tells nobody of a wait.
        while await sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
