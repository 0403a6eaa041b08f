"""Mutes: what they leave out of the viewer's context, and that everything else stays."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import FailedPrecondition, NotFound
from feedkit.postgres import Database
from graph_service.cache_store import CacheStore
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.relationships import Relationship, Relationships
from graph_service.store import Store
from graph_service.viewer_context import ViewerContexts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
LIMIT = 3
NOBODY = 2**63 - 1
MUTED = events_pb2.GRAPH_EVENT_KIND_MUTED
UNMUTED = events_pb2.GRAPH_EVENT_KIND_UNMUTED


@pytest.fixture
def follows(database: Database, caches: CacheStore) -> Follows:
    return Follows(FollowStore(database), caches, 5000)


@pytest.fixture
def mutes(database: Database, caches: CacheStore) -> Mutes:
    return Mutes(MuteStore(database), caches, LIMIT)


async def test_the_context_is_without_the_muted_until_they_are_unmuted(
    follows: Follows, mutes: Mutes, store: Store, make_users: MakeUsers
):
    contexts = ViewerContexts(store)
    a, b, c, d = await make_users(4)
    await follows.follow_many(a, [d, b, c])
    await mutes.mute(a, c)
    await mutes.mute(b, d)
    assert (await contexts.get(a)).followee_ids == [b, d]
    await mutes.unmute(a, c)
    assert (await contexts.get(a)).followee_ids == [b, c, d]


async def test_a_mute_outlives_the_follow(follows: Follows, mutes: Mutes, store: Store, make_users: MakeUsers):
    a, b = await make_users(2)
    await mutes.mute(a, b)
    await follows.follow(a, b)
    assert (await ViewerContexts(store).get(a)).followee_ids == []


async def test_a_muted_user_is_followed_and_counted_as_before(
    follows: Follows, mutes: Mutes, store: Store, make_users: MakeUsers
):
    a, b = await make_users(2)
    await follows.follow(a, b)
    await mutes.mute(a, b)
    assert [(user.follower_count, user.following_count) for user in await store.users([b])] == [(1, 0)]
    assert await Relationships(store).get_many(a, [b]) == [
        Relationship(b, following=True, followed_by=False, muting=True)
    ]
    assert await Relationships(store).get_many(b, [a]) == [Relationship(a, following=False, followed_by=True)]


async def test_only_real_changes_make_events(mutes: Mutes, make_users: MakeUsers, sql: Sql):
    a, b = await make_users(2)
    changed = [await call(a, b) for call in (mutes.unmute, mutes.mute, mutes.mute, mutes.unmute, mutes.unmute)]
    assert changed == [False, True, False, True, False]
    rows = await sql.fetch("SELECT payload FROM outbox WHERE key = $1 ORDER BY id", str(a))
    assert [events_pb2.GraphEvent.FromString(row["payload"]) for row in rows] == [
        events_pb2.GraphEvent(follower_id=a, followee_id=b, kind=kind) for kind in (MUTED, UNMUTED)
    ]


async def test_nobody_mutes_themselves(mutes: Mutes, make_users: MakeUsers):
    [a] = await make_users(1)
    with pytest.raises(FailedPrecondition) as caught:
        await mutes.mute(a, a)
    assert caught.value.reason == "CANNOT_MUTE_SELF"


@pytest.mark.parametrize("method", ["mute", "unmute"])
async def test_an_unknown_user_is_named(mutes: Mutes, make_users: MakeUsers, method: str):
    [a] = await make_users(1)
    for actor, other, field in ((a, NOBODY, "muted_id"), (NOBODY, a, "actor_id")):
        with pytest.raises(NotFound) as caught:
            await getattr(mutes, method)(actor, other)
        assert caught.value.metadata == {"user_id": str(NOBODY), "field": field}


async def test_the_limit_refuses_a_new_mute_but_not_one_that_stands(mutes: Mutes, make_users: MakeUsers):
    a, *others = await make_users(LIMIT + 2)
    for other in others[:LIMIT]:
        await mutes.mute(a, other)
    with pytest.raises(FailedPrecondition) as caught:
        await mutes.mute(a, others[LIMIT])
    assert (caught.value.reason, caught.value.metadata) == ("MUTING_LIMIT_REACHED", {"limit": str(LIMIT)})
    assert await mutes.mute(a, others[0]) is False
    await mutes.unmute(a, others[0])
    assert await mutes.mute(a, others[LIMIT])
