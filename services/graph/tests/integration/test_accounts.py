"""What is written when an account is suspended, restored and deleted."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.postgres import Database
from graph_service.account_store import AccountStore
from graph_service.accounts import Accounts
from graph_service.cache_store import CacheStore

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
SUSPENDED = events_pb2.USER_EVENT_KIND_SUSPENDED
RESTORED = events_pb2.USER_EVENT_KIND_RESTORED
DELETED = events_pb2.USER_EVENT_KIND_DELETED


@pytest.fixture
def accounts(database: Database, caches: CacheStore) -> Accounts:
    return Accounts(AccountStore(database), caches)


async def events_of(sql: Sql, user: int) -> list[int]:
    """The kind of each event of an account, in the order written."""
    rows = await sql.fetch("SELECT topic, type, payload FROM outbox WHERE key = $1 ORDER BY id", str(user))
    assert {(topic, name) for topic, name, _ in rows} <= {("feed.graph.events.v1", "feed.events.v1.UserEvent")}
    events = [events_pb2.UserEvent.FromString(payload) for _, _, payload in rows]
    assert all(event.user_id == user for event in events)
    return [event.kind for event in events]


async def test_only_real_changes_make_events(accounts: Accounts, make_users: MakeUsers, sql: Sql):
    [user] = await make_users(1)
    for change in (accounts.restore, accounts.suspend, accounts.suspend, accounts.restore, accounts.restore):
        await change(user)
    assert await events_of(sql, user) == [SUSPENDED, RESTORED]


async def test_every_deletion_makes_an_event_so_that_a_repeated_one_erases_what_is_left(
    accounts: Accounts, make_users: MakeUsers, sql: Sql
):
    [user] = await make_users(1)
    await accounts.suspend(user)
    await accounts.delete(user)
    await accounts.delete(user)
    assert await events_of(sql, user) == [SUSPENDED, DELETED, DELETED]


async def test_the_name_goes_with_the_account_and_with_nothing_less(
    accounts: Accounts, make_users: MakeUsers, sql: Sql
):
    [user] = await make_users(1)
    names: list[str] = []
    for change in (accounts.suspend, accounts.restore, accounts.delete):
        await change(user)
        names.append(await sql.fetchval("SELECT name FROM users WHERE id = $1", user))
    assert names == ["user 1", "user 1", ""]
