"""The view that somebody has chosen for their home timeline, and when they chose it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import NotFound
from feedkit.postgres import Database
from graph_service.cache_store import CacheStore
from graph_service.home_view_store import HomeViewStore
from graph_service.home_views import HomeView, HomeViews
from graph_service.store import Store
from graph_service.viewer_context import ViewerContext, ViewerContexts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
NOBODY = 2**63 - 1
LATEST, RANKED = HomeView.LATEST, HomeView.RANKED


@pytest.fixture
def home_views(database: Database, caches: CacheStore) -> HomeViews:
    return HomeViews(HomeViewStore(database), caches)


async def history(sql: Sql, user: int) -> list[int]:
    """The views that a user chose, in the order of time."""
    rows = await sql.fetch("SELECT view FROM view_choices WHERE user_id = $1 ORDER BY chosen_at, seq", user)
    return [row["view"] for row in rows]


async def events_of(sql: Sql, user: int) -> list[events_pb2.UserEvent]:
    rows = await sql.fetch("SELECT topic, type, payload FROM outbox WHERE key = $1 ORDER BY id", str(user))
    assert {(topic, name) for topic, name, _ in rows} <= {("feed.graph.events.v1", "feed.events.v1.UserEvent")}
    return [events_pb2.UserEvent.FromString(payload) for _, _, payload in rows]


async def test_who_never_chose_is_shown_the_latest(home_views: HomeViews, store: Store, make_users: MakeUsers):
    [user] = await make_users(1)
    assert await home_views.get(user) is LATEST
    assert await ViewerContexts(store).get(user) == ViewerContext([], [], LATEST)


async def test_what_one_chose_is_told_and_is_in_the_context(home_views: HomeViews, store: Store, make_users: MakeUsers):
    user, other = await make_users(2)
    for view in (RANKED, LATEST, RANKED):
        assert await home_views.choose(user, view)
        assert await home_views.get(user) is view
        assert (await ViewerContexts(store).get(user)).home_view is view
        assert await home_views.get(other) is LATEST


async def test_only_real_changes_make_events_and_history(home_views: HomeViews, make_users: MakeUsers, sql: Sql):
    [user] = await make_users(1)
    changed = [await home_views.choose(user, view) for view in (LATEST, RANKED, RANKED, LATEST, LATEST)]
    assert changed == [False, True, False, True, False]
    event = events_pb2.UserEvent(user_id=user, kind=events_pb2.USER_EVENT_KIND_VIEW_CHOSEN)
    assert await events_of(sql, user) == [event, event]
    assert await history(sql, user) == [RANKED, LATEST]


async def test_an_unknown_user_has_no_view(home_views: HomeViews, sql: Sql):
    for call in (home_views.get(NOBODY), home_views.choose(NOBODY, RANKED)):
        with pytest.raises(NotFound) as caught:
            await call
        assert caught.value.metadata == {"user_id": str(NOBODY), "field": "user_id"}
    assert await history(sql, NOBODY) == []
    assert await events_of(sql, NOBODY) == []


async def test_the_history_of_choices_made_at_once_is_one_after_another(
    open_database: OpenDatabase, caches: CacheStore, make_users: MakeUsers, sql: Sql
):
    [user] = await make_users(1)
    home_views = HomeViews(HomeViewStore(await open_database(postgres_pool_size=16)), caches)
    changed = await asyncio.gather(*(home_views.choose(user, view) for view in [RANKED, LATEST] * 20))
    chosen = await history(sql, user)
    assert chosen == [RANKED, LATEST] * (len(chosen) // 2) + [RANKED] * (len(chosen) % 2)
    assert len(chosen) == sum(changed) == len(await events_of(sql, user))
    assert await home_views.get(user) == chosen[-1]
