"""Users, relationships, activity and the viewer's context, in PostgreSQL."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from feedkit.errors import NotFound
from feedkit.postgres import Database
from graph_service.activity import Activity
from graph_service.cache_store import CacheStore
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.relationships import Relationships
from graph_service.store import Store
from graph_service.users import Standing, Users
from graph_service.viewer_context import ViewerContexts

pytestmark = pytest.mark.integration

MakeUsers = Callable[[int], Awaitable[list[int]]]
MakeCrowd = Callable[[int], Awaitable[tuple[int, list[int]]]]
OpenDatabase = Callable[..., Awaitable[Database]]
STREAM_PAGE = 100


@pytest.fixture
def follows(database: Database, caches: CacheStore) -> Follows:
    return Follows(FollowStore(database), caches, 5000)


async def test_every_call_makes_another_user(store: Store):
    users = Users(store)
    assert (await users.create("Ada")).id != (await users.create("Ada")).id


@pytest.mark.parametrize("name", ["Ada", "Ørjan 🦊", "x" * 100, "'; DROP TABLE users; --"])
async def test_a_name_comes_back_as_it_was_given(store: Store, name: str):
    users = Users(store)
    created = await users.create(name)
    assert await users.get(created.id) == created


@pytest.mark.parametrize("with_counts", [True, False])
async def test_a_batch_of_users_has_each_once_in_the_order_asked(
    store: Store, make_users: MakeUsers, with_counts: bool
):
    a, b, c = await make_users(3)
    found = await Users(store).get_many([c, 2**63 - 1, a, c, b, a], with_counts=with_counts)
    assert [user.id for user in found] == [c, a, b]


async def test_names_alone_come_without_counts(store: Store, follows: Follows, make_users: MakeUsers):
    a, b = await make_users(2)
    await follows.follow(a, b)
    assert await Users(store).get_many([a, b], with_counts=False) == [
        (a, "user 1", 0, 0, Standing.ACTIVE),
        (b, "user 2", 0, 0, Standing.ACTIVE),
    ]
    assert await Users(store).get_many([a, b], with_counts=True) == [
        (a, "user 1", 0, 1, Standing.ACTIVE),
        (b, "user 2", 1, 0, Standing.ACTIVE),
    ]


async def test_relationships_tell_both_directions_once_for_each_id(
    store: Store, follows: Follows, make_users: MakeUsers
):
    viewer, followee, follower, friend, stranger = await make_users(5)
    await follows.follow_many(viewer, [followee, friend])
    await follows.follow(follower, viewer)
    await follows.follow(friend, viewer)
    asked = [stranger, friend, follower, followee, friend, viewer, 2**63 - 1]
    found = await Relationships(store).get_many(viewer, asked)
    assert [(each.user_id, each.following, each.followed_by) for each in found] == [
        (stranger, False, False),
        (friend, True, True),
        (follower, False, True),
        (followee, True, False),
        (viewer, False, False),
        (2**63 - 1, False, False),
    ]


@pytest.mark.parametrize("asked", [[], [1]])
async def test_an_unknown_viewer_has_no_relationships(store: Store, asked: list[int]):
    with pytest.raises(NotFound) as caught:
        await Relationships(store).get_many(2**63 - 1, asked)
    assert caught.value.metadata["field"] == "viewer_id"


async def test_relationships_of_a_celebrity_do_not_read_all_followers(
    make_crowd: MakeCrowd, sql: "asyncpg.Connection[asyncpg.Record]", open_database: OpenDatabase
):
    celebrity, followers = await make_crowd(20_000)
    await sql.execute("VACUUM ANALYZE follows")
    reads = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE relname = 'follows'"
    await sql.fetchval("SELECT pg_stat_force_next_flush()")
    before: int = await sql.fetchval(reads)
    database = await open_database(postgres_pool_size=1)
    found = await Relationships(Store(database)).get_many(celebrity, followers[:100])
    assert all(relationship.followed_by for relationship in found)
    async with database.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    assert 100 <= await sql.fetchval(reads) - before < 1000


# The last three change with every write to the row, a lock included.
ROW = """
SELECT seen_on = (now() AT TIME ZONE 'UTC')::date AS today, ctid, xmin, xmax FROM activity WHERE user_id = $1
"""


async def test_activity_is_recorded_for_today(
    store: Store, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    [a] = await make_users(1)
    await Activity(store, STREAM_PAGE).record(a)
    assert (await sql.fetch(ROW, a))[0]["today"]


async def test_activity_of_another_day_is_brought_up_to_today(
    store: Store, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    [a] = await make_users(1)
    await sql.execute("INSERT INTO activity VALUES ($1, '2024-02-29')", a)
    await Activity(store, STREAM_PAGE).record(a)
    assert (await sql.fetch(ROW, a))[0]["today"]


async def test_activity_is_written_once_a_day(
    store: Store, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    [a] = await make_users(1)
    await Activity(store, STREAM_PAGE).record(a)
    written = await sql.fetch(ROW, a)
    await Activity(store, STREAM_PAGE).record(a)
    assert await sql.fetch(ROW, a) == written


async def test_an_unknown_user_is_never_active(store: Store, sql: "asyncpg.Connection[asyncpg.Record]"):
    with pytest.raises(NotFound):
        await Activity(store, STREAM_PAGE).record(2**63 - 1)
    assert await sql.fetch(ROW, 2**63 - 1) == []


async def test_the_context_holds_the_followees_ascending(store: Store, follows: Follows, make_users: MakeUsers):
    viewer, *others = await make_users(200)
    await follows.follow_many(viewer, others[::-1])
    assert (await ViewerContexts(store).get(viewer)).followee_ids == others


async def test_the_context_of_one_who_follows_nobody_is_empty(store: Store, make_users: MakeUsers):
    [viewer] = await make_users(1)
    assert (await ViewerContexts(store).get(viewer)).followee_ids == []


async def test_an_unknown_viewer_has_no_context(store: Store):
    with pytest.raises(NotFound) as caught:
        await ViewerContexts(store).get(2**63 - 1)
    assert caught.value.metadata["field"] == "viewer_id"


async def test_the_context_takes_one_round_trip(open_database: OpenDatabase, make_users: MakeUsers):
    statements: list[str] = []
    database = await open_database(postgres_pool_size=1)
    contexts = ViewerContexts(Store(database))
    first, second = await make_users(2)
    # A new connection asks for the types of arrays once.
    await contexts.get(first)
    async with database.connection() as connection:
        connection.add_query_logger(lambda query: statements.append(query.query))
    await contexts.get(second)
    assert len(statements) == 1
