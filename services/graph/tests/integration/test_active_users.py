"""The stream of users who were active lately: those who may have a home timeline."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

import asyncpg
import pytest
from feedkit.postgres import Database
from graph_service.activity import Activity
from graph_service.store import Store

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
STREAM_PAGE = 10


@pytest.fixture
async def users(make_users: MakeUsers, sql: Sql) -> AsyncIterator[list[int]]:
    """Some users; nobody else was ever active."""
    await sql.execute("DELETE FROM activity")
    yield await make_users(3 * STREAM_PAGE + 3)
    await sql.execute("DELETE FROM activity")


@pytest.fixture
def activity(store: Store) -> Activity:
    return Activity(store, STREAM_PAGE)


async def saw(sql: Sql, user_ids: Sequence[int], days_ago: int) -> None:
    """Note that users were last active so many days ago."""
    await sql.execute(
        "INSERT INTO activity SELECT u, (now() AT TIME ZONE 'UTC')::date - $2::int FROM unnest($1::bigint[]) u",
        user_ids,
        days_ago,
    )


async def pages_of(activity: Activity, active_days: int) -> list[Sequence[int]]:
    return [page async for page in activity.stream_active_users(active_days)]


@pytest.mark.parametrize("count", [0, 1, STREAM_PAGE - 1, STREAM_PAGE, STREAM_PAGE + 1, 3 * STREAM_PAGE + 3])
async def test_every_active_user_is_in_it_once_ascending(activity: Activity, users: list[int], sql: Sql, count: int):
    await saw(sql, users[:count][::-1], 3)
    pages = await pages_of(activity, 30)
    assert [user for page in pages for user in page] == users[:count]
    assert all(0 < len(page) <= STREAM_PAGE for page in pages)


@pytest.mark.parametrize(("days_ago", "active_days"), [(0, 0), (1, 0), (1, 1), (2, 1), (30, 30), (31, 30)])
async def test_a_user_is_active_until_the_end_of_the_last_of_the_days(
    activity: Activity, users: list[int], sql: Sql, days_ago: int, active_days: int
):
    await saw(sql, users[:1], days_ago)
    assert await pages_of(activity, active_days) == ([users[:1]] if days_ago <= active_days else [])


async def test_a_row_of_inactive_users_longer_than_a_page_does_not_end_it(
    activity: Activity, users: list[int], sql: Sql
):
    await saw(sql, users[1:-1], 90)
    await saw(sql, [users[0], users[-1]], 0)
    assert await pages_of(activity, 30) == [[users[0]], [users[-1]]]


async def test_a_slow_consumer_holds_no_connection(open_database: OpenDatabase, users: list[int], sql: Sql):
    store = Store(await open_database(postgres_pool_size=1, postgres_acquire_seconds=0.5))
    await saw(sql, users, 0)
    stream = aiter(Activity(store, STREAM_PAGE).stream_active_users(30))
    assert len(await anext(stream)) == STREAM_PAGE
    assert await store.user_exists(users[0])
    assert len(await anext(stream)) == STREAM_PAGE
