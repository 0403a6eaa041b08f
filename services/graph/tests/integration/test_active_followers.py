"""The stream of followers who were active lately: the ones to push to."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import asyncpg
import pytest
from feedkit.postgres import Database
from graph_service.activity import Activity
from graph_service.cache_store import CacheStore
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.store import Store
from graph_service.user_lists import UserLists

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeCrowd = Callable[[int], Awaitable[tuple[int, list[int]]]]
OpenDatabase = Callable[..., Awaitable[Database]]
STREAM_PAGE = 100


@pytest.fixture
def lists(store: Store) -> UserLists:
    return UserLists(store, STREAM_PAGE)


async def saw(sql: Sql, user_ids: Sequence[int], days_ago: int) -> None:
    """Note that users were last active so many days ago."""
    await sql.execute(
        "INSERT INTO activity SELECT u, (now() AT TIME ZONE 'UTC')::date - $2::int FROM unnest($1::bigint[]) u",
        user_ids,
        days_ago,
    )


async def pages_of(lists: UserLists, user_id: int, active_days: int = 30) -> list[Sequence[int]]:
    return [page async for page in lists.stream_active_followers(user_id, active_days)]


async def active(lists: UserLists, user_id: int, active_days: int = 30) -> list[int]:
    return sorted([follower for page in await pages_of(lists, user_id, active_days) for follower in page])


@pytest.mark.parametrize(("days_ago", "active_days"), [(0, 0), (1, 0), (1, 1), (2, 1), (30, 30), (31, 30)])
async def test_a_follower_is_active_until_the_end_of_the_last_of_the_days(
    lists: UserLists, make_crowd: MakeCrowd, sql: Sql, days_ago: int, active_days: int
):
    author, [follower] = await make_crowd(1)
    await saw(sql, [follower], days_ago)
    assert await active(lists, author, active_days) == ([follower] if days_ago <= active_days else [])


async def test_a_follower_who_was_never_active_is_not_in_it(lists: UserLists, make_crowd: MakeCrowd):
    author, _ = await make_crowd(3)
    assert await pages_of(lists, author, 36_500) == []


async def test_a_follower_who_becomes_active_is_in_the_next_stream(
    lists: UserLists, store: Store, make_crowd: MakeCrowd, sql: Sql
):
    author, followers = await make_crowd(2)
    await saw(sql, followers, 31)
    await Activity(store, STREAM_PAGE).record(followers[1])
    assert await active(lists, author) == [followers[1]]


async def test_only_followers_are_in_it(lists: UserLists, make_crowd: MakeCrowd, sql: Sql):
    (author, followers), (other, others) = await make_crowd(2), await make_crowd(2)
    await saw(sql, [author, *followers, other, *others], 0)
    assert await active(lists, author) == followers


async def test_nobody_follows_an_unknown_user(lists: UserLists):
    assert await pages_of(lists, 2**63 - 1) == []


@pytest.mark.parametrize("count", [STREAM_PAGE - 1, STREAM_PAGE, STREAM_PAGE + 1, 3 * STREAM_PAGE + 5])
@pytest.mark.parametrize("one_in", [1, 7])
async def test_every_active_follower_is_in_it_once(
    lists: UserLists, make_crowd: MakeCrowd, sql: Sql, count: int, one_in: int
):
    author, followers = await make_crowd(count)
    await saw(sql, followers[::one_in], 3)
    assert await active(lists, author) == followers[::one_in]


async def test_a_row_of_inactive_followers_longer_than_a_page_does_not_end_it(
    lists: UserLists, make_crowd: MakeCrowd, sql: Sql
):
    author, followers = await make_crowd(3 * STREAM_PAGE)
    # The newest follow comes first.
    await saw(sql, [followers[0], followers[-1]], 0)
    assert await pages_of(lists, author) == [[followers[-1]], [followers[0]]]


async def test_a_follow_made_again_during_it_is_not_in_it_twice(
    lists: UserLists, database: Database, caches: CacheStore, make_crowd: MakeCrowd, sql: Sql
):
    follows = Follows(FollowStore(database), caches, 5000)
    author, followers = await make_crowd(STREAM_PAGE + 5)
    await saw(sql, followers, 0)
    stream = aiter(lists.stream_active_followers(author, 30))
    first = await anext(stream)
    await follows.unfollow(first[0], author)
    await follows.follow(first[0], author)
    rest = [follower async for page in stream for follower in page]
    assert sorted([*first, *rest]) == followers


async def test_a_slow_consumer_holds_no_connection(open_database: OpenDatabase, make_crowd: MakeCrowd, sql: Sql):
    store = Store(await open_database(postgres_pool_size=1, postgres_acquire_seconds=0.5))
    author, followers = await make_crowd(STREAM_PAGE + 1)
    await saw(sql, followers, 0)
    stream = aiter(UserLists(store, STREAM_PAGE).stream_active_followers(author, 30))
    assert len(await anext(stream)) == STREAM_PAGE
    assert await store.user_exists(author)
    assert len(await anext(stream)) == 1


async def test_the_activity_of_others_is_not_read(open_database: OpenDatabase, make_crowd: MakeCrowd, sql: Sql):
    """Whatever the statistics say: before there are any, and when they are fresh."""
    database = await open_database(postgres_pool_size=1)
    lists = UserLists(Store(database), 10_000)
    (author, followers), (_, others) = await make_crowd(50), await make_crowd(20_000)
    await saw(sql, [*followers, *others], 0)
    before = await whole_reads_of_activity(database)
    for _ in range(2):
        for _ in range(10):  # a plan for any arguments is made after some for certain ones
            assert await active(lists, author) == followers
        assert await whole_reads_of_activity(database) == before
        await sql.execute("ANALYZE activity, follows")


async def whole_reads_of_activity(database: Database) -> int:
    async with database.connection() as connection:
        # A session tells what it did when it is asked to.
        await connection.execute("SELECT pg_stat_force_next_flush()")
        return await connection.fetchval("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'activity'")
