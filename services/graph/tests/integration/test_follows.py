"""Follows, their counts and their events, in PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import FailedPrecondition, NotFound
from feedkit.postgres import Database
from graph_service.cache_store import CacheStore
from graph_service.follow_store import FollowStore
from graph_service.follower_counts import SHARDS, shard_of
from graph_service.follows import Follows, Outcome, Refusal
from graph_service.store import Store

pytestmark = pytest.mark.integration

MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
FOLLOWED = events_pb2.GRAPH_EVENT_KIND_FOLLOWED
UNFOLLOWED = events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED
LIMIT = 5


@pytest.fixture
def follows(database: Database, caches: CacheStore) -> Follows:
    return Follows(FollowStore(database), caches, LIMIT)


async def events_of(sql: "asyncpg.Connection[asyncpg.Record]", follower_id: int) -> list[tuple[int, int]]:
    """(followee, kind) of each event of a follower, in the order written."""
    query = "SELECT topic, type, payload FROM outbox WHERE key = $1 ORDER BY id"
    events: list[tuple[int, int]] = []
    for topic, type_name, payload in await sql.fetch(query, str(follower_id)):
        assert (topic, type_name) == ("feed.graph.events.v1", "feed.events.v1.GraphEvent")
        event = events_pb2.GraphEvent.FromString(payload)
        assert event.follower_id == follower_id
        events.append((event.followee_id, event.kind))
    return events


async def counts_of(store: Store, *user_ids: int) -> list[tuple[int, int]]:
    """(followers, following) of each user."""
    users = {user.id: user for user in await store.users(list(user_ids))}
    return [(users[user_id].follower_count, users[user_id].following_count) for user_id in user_ids]


async def test_a_follow_is_new_once(follows: Follows, make_users: MakeUsers):
    a, b = await make_users(2)
    assert [await follows.follow(a, b), await follows.follow(a, b)] == [True, False]


async def test_a_follow_is_counted_on_both_sides(follows: Follows, store: Store, make_users: MakeUsers):
    a, b = await make_users(2)
    await follows.follow(a, b)
    assert await counts_of(store, a, b) == [(0, 1), (1, 0)]


async def test_an_unfollow_is_counted_on_both_sides(follows: Follows, store: Store, make_users: MakeUsers):
    a, b = await make_users(2)
    await follows.follow(a, b)
    assert [await follows.unfollow(a, b), await follows.unfollow(a, b)] == [True, False]
    assert await counts_of(store, a, b) == [(0, 0), (0, 0)]


async def test_only_real_changes_make_events(
    follows: Follows, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    a, b = await make_users(2)
    await follows.unfollow(a, b)
    await follows.follow(a, b)
    await follows.follow(a, b)
    await follows.unfollow(a, b)
    await follows.unfollow(a, b)
    assert await events_of(sql, a) == [(b, FOLLOWED), (b, UNFOLLOWED)]


async def test_nobody_follows_themselves(follows: Follows, make_users: MakeUsers):
    [a] = await make_users(1)
    with pytest.raises(FailedPrecondition) as caught:
        await follows.follow(a, a)
    assert caught.value.reason == "CANNOT_FOLLOW_SELF"


@pytest.mark.parametrize("call", [Follows.follow, Follows.unfollow])
async def test_an_unknown_followee_is_named(
    follows: Follows, make_users: MakeUsers, call: Callable[[Follows, int, int], Awaitable[bool]]
):
    [a] = await make_users(1)
    with pytest.raises(NotFound) as caught:
        await call(follows, a, 2**63 - 1)
    assert caught.value.metadata == {"user_id": str(2**63 - 1), "field": "followee_id"}


@pytest.mark.parametrize("call", [Follows.follow, Follows.unfollow])
async def test_an_unknown_actor_is_named(
    follows: Follows, make_users: MakeUsers, call: Callable[[Follows, int, int], Awaitable[bool]]
):
    [a] = await make_users(1)
    with pytest.raises(NotFound) as caught:
        await call(follows, 2**63 - 1, a)
    assert caught.value.metadata == {"user_id": str(2**63 - 1), "field": "actor_id"}


async def test_the_limit_refuses_a_new_follow_but_not_one_that_stands(follows: Follows, make_users: MakeUsers):
    a, *others = await make_users(LIMIT + 2)
    for other in others[:LIMIT]:
        await follows.follow(a, other)
    with pytest.raises(FailedPrecondition) as caught:
        await follows.follow(a, others[LIMIT])
    assert (caught.value.reason, caught.value.metadata) == ("FOLLOWING_LIMIT_REACHED", {"limit": str(LIMIT)})
    assert await follows.follow(a, others[0]) is False


async def test_an_unfollow_makes_room(follows: Follows, make_users: MakeUsers):
    a, *others = await make_users(LIMIT + 2)
    await follows.follow_many(a, others[:LIMIT])
    await follows.unfollow(a, others[0])
    assert await follows.follow(a, others[LIMIT]) is True


async def test_a_mass_follow_tells_what_became_of_each(
    follows: Follows, store: Store, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    a, b, c, d, e, f, g, h = await make_users(8)
    await follows.follow(a, c)
    results = await follows.follow_many(a, [h, c, a, 2**63 - 1, h, b, g, d, f, e])
    assert results == [
        (h, Outcome.FOLLOWED, None),
        (c, Outcome.ALREADY, None),
        (a, Outcome.REFUSED, Refusal.CANNOT_FOLLOW_SELF),
        (2**63 - 1, Outcome.REFUSED, Refusal.USER_NOT_FOUND),
        (b, Outcome.FOLLOWED, None),
        (g, Outcome.FOLLOWED, None),
        (d, Outcome.FOLLOWED, None),
        (f, Outcome.REFUSED, Refusal.FOLLOWING_LIMIT_REACHED),
        (e, Outcome.REFUSED, Refusal.FOLLOWING_LIMIT_REACHED),
    ]
    assert await events_of(sql, a) == [(c, FOLLOWED), (h, FOLLOWED), (b, FOLLOWED), (g, FOLLOWED), (d, FOLLOWED)]
    assert await counts_of(store, a, b, c, d, e) == [(0, 5), (1, 0), (1, 0), (1, 0), (0, 0)]


async def test_a_thousand_follows_take_no_more_round_trips_than_one(
    open_database: OpenDatabase, make_users: MakeUsers, caches: CacheStore
):
    statements: list[str] = []
    database = await open_database(postgres_pool_size=1)
    follows = Follows(FollowStore(database), caches, 5000)
    a, *others = await make_users(1002)
    # A new connection asks for the types of arrays once.
    await follows.follow(a, others[0])
    async with database.connection() as connection:
        connection.add_query_logger(lambda query: statements.append(query.query))
    await follows.follow(a, others[1])
    for_one = len(statements)
    await follows.follow_many(a, others[2:])
    assert len(statements) == 2 * for_one


def in_each_part(user_ids: Sequence[int]) -> dict[int, int]:
    return {shard_of(user_id): user_id for user_id in user_ids}


async def test_the_followers_of_a_celebrity_do_not_wait_at_one_row(
    open_database: OpenDatabase,
    caches: CacheStore,
    store: Store,
    make_users: MakeUsers,
    sql: "asyncpg.Connection[asyncpg.Record]",
):
    """While somebody holds the celebrity's own row and one part of the count, all of the other parts get through."""
    follows = Follows(FollowStore(await open_database(postgres_pool_size=64)), caches, LIMIT)
    celebrity, first, *fans = await make_users(66)
    await follows.follow(first, celebrity)
    held = shard_of(first)
    async with asyncio.TaskGroup() as tasks, sql.transaction():
        await sql.execute("SELECT FROM users WHERE id = $1 FOR UPDATE", celebrity)
        await sql.execute("SELECT FROM follower_counts WHERE user_id = $1 AND shard = $2 FOR UPDATE", celebrity, held)
        following = {fan: tasks.create_task(follows.follow(fan, celebrity)) for fan in fans}
        done = await asyncio.gather(*(task for fan, task in following.items() if shard_of(fan) != held))
        assert len(done) > 64 * 3 / 4 and all(done)
        assert not any(task.done() for fan, task in following.items() if shard_of(fan) == held)
    rows = await sql.fetch("SELECT shard, count FROM follower_counts WHERE user_id = $1", celebrity)
    assert len(rows) == SHARDS == len(in_each_part(fans))
    assert await counts_of(store, celebrity) == [(65, 0)]


async def test_a_deadlock_with_other_hands_on_the_tables_is_tried_again(
    follows: Follows, store: Store, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    a, b, c = await make_users(3)
    take = "INSERT INTO follower_counts (user_id, shard, count) VALUES ($1, $2, 0)"
    # Whoever waits this long looks for a deadlock and gives up: let it be the service.
    await sql.execute("SET deadlock_timeout = '20s'")
    async with sql.transaction():
        await sql.execute(take, c, shard_of(a))
        following = asyncio.create_task(follows.follow_many(a, [b, c]))
        await until_somebody_waits(sql)
        await sql.execute(take, b, shard_of(a))
    assert [result.outcome for result in await following] == [Outcome.FOLLOWED] * 2
    assert await counts_of(store, a, b, c) == [(0, 2), (1, 0), (1, 0)]


async def test_counts_are_locked_by_user_id_whatever_the_order_asked(
    follows: Follows, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    a, low, high, *rest = await make_users(100)
    # Somebody whose follows touch the same rows makes them.
    twin = next(user for user in rest if shard_of(user) == shard_of(a))
    await follows.follow_many(twin, [low, high])
    lock = "SELECT FROM follower_counts WHERE user_id = $1 FOR UPDATE NOWAIT"
    async with asyncio.TaskGroup() as tasks, sql.transaction():
        await sql.execute(lock, low)
        tasks.create_task(follows.follow_many(a, [high, low]))
        await until_somebody_waits(sql)
        # Raises where the higher row was taken first.
        await sql.execute(lock, high)


async def until_somebody_waits(sql: "asyncpg.Connection[asyncpg.Record]") -> None:
    async with asyncio.timeout(10):
        # PostgreSQL tells nobody of a wait.
        while not await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_cancelled_follow_leaves_nothing_behind(
    follows: Follows, store: Store, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    a, b = await make_users(2)
    async with sql.transaction():
        await sql.execute("SELECT FROM users WHERE id = $1 FOR UPDATE", a)
        following = asyncio.create_task(follows.follow(a, b))
        await until_somebody_waits(sql)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
    assert await counts_of(store, a, b) == [(0, 0), (0, 0)]
    assert await events_of(sql, a) == []
