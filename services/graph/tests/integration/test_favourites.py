"""Favourites: whom they may be, where they are told of, and how they end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import FailedPrecondition, NotFound
from feedkit.postgres import Database
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.favourite_store import FavouriteStore
from graph_service.favourites import Favourites
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.relationships import Relationship, Relationships
from graph_service.store import Store
from graph_service.user_lists import Side, UserLists
from graph_service.viewer_context import ViewerContext, ViewerContexts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
LIMIT = 3
NOBODY = 2**63 - 1
FAVOURED = events_pb2.GRAPH_EVENT_KIND_FAVOURED
UNFAVOURED = events_pb2.GRAPH_EVENT_KIND_UNFAVOURED


class Graph(NamedTuple):
    """What makes and ends favourites."""

    follows: Follows
    favourites: Favourites
    blocks: Blocks
    mutes: Mutes


@pytest.fixture
def graph(database: Database, caches: CacheStore) -> Graph:
    return Graph(
        Follows(FollowStore(database), caches, 5000),
        Favourites(FavouriteStore(database), caches, LIMIT),
        Blocks(BlockStore(database), caches, 5000),
        Mutes(MuteStore(database), caches, 5000),
    )


async def favourites_of(store: Store, viewer: int) -> list[int]:
    return list((await ViewerContexts(store).get(viewer)).favourite_ids)


async def test_the_context_has_the_favourites_ascending_among_the_followees(
    graph: Graph, store: Store, make_users: MakeUsers
):
    a, b, c, d = await make_users(4)
    await graph.follows.follow_many(a, [d, b, c])
    await graph.follows.follow(b, d)
    for favourite in (d, b):
        assert await graph.favourites.favour(a, favourite)
    assert await ViewerContexts(store).get(a) == ViewerContext([b, c, d], [b, d])
    assert await ViewerContexts(store).get(b) == ViewerContext([d], [])
    assert await graph.favourites.unfavour(a, b)
    assert await ViewerContexts(store).get(a) == ViewerContext([b, c, d], [d])


async def test_a_muted_favourite_is_in_the_context_again_when_unmuted(
    graph: Graph, store: Store, make_users: MakeUsers
):
    a, b, c = await make_users(3)
    await graph.follows.follow_many(a, [b, c])
    for favourite in (b, c):
        await graph.favourites.favour(a, favourite)
    await graph.mutes.mute(a, b)
    assert await ViewerContexts(store).get(a) == ViewerContext([c], [c])
    await graph.mutes.unmute(a, b)
    assert await favourites_of(store, a) == [b, c]


async def unfollow(graph: Graph, a: int, b: int) -> None:
    await graph.follows.unfollow(a, b)


async def block(graph: Graph, a: int, b: int) -> None:
    await graph.blocks.block(a, b)
    await graph.blocks.unblock(a, b)


async def be_blocked(graph: Graph, a: int, b: int) -> None:
    await block(graph, b, a)


@pytest.mark.parametrize("end", [unfollow, block, be_blocked])
async def test_a_favourite_ends_with_the_follow_and_does_not_come_back_with_a_new_one(
    graph: Graph, store: Store, make_users: MakeUsers, end: Callable[[Graph, int, int], Awaitable[None]]
):
    a, b = await make_users(2)
    await graph.follows.follow(a, b)
    await graph.favourites.favour(a, b)
    await end(graph, a, b)
    with pytest.raises(FailedPrecondition) as caught:
        await graph.favourites.favour(a, b)
    assert (caught.value.reason, caught.value.metadata) == ("NOT_FOLLOWING", {"user_id": str(b)})
    await graph.follows.follow(a, b)
    assert await favourites_of(store, a) == []


async def test_nobody_is_a_favourite_of_themselves_or_of_one_whom_they_follow(graph: Graph, make_users: MakeUsers):
    a, b = await make_users(2)
    await graph.follows.follow(a, b)
    for actor, favourite in ((a, a), (b, a)):
        with pytest.raises(FailedPrecondition) as caught:
            await graph.favourites.favour(actor, favourite)
        assert caught.value.reason == "NOT_FOLLOWING"
        assert await graph.favourites.unfavour(actor, favourite) is False


async def test_only_real_changes_make_events(graph: Graph, make_users: MakeUsers, sql: Sql):
    a, b = await make_users(2)
    await graph.follows.follow(a, b)
    favour, unfavour = graph.favourites.favour, graph.favourites.unfavour
    changed = [await call(a, b) for call in (unfavour, favour, favour, unfavour, unfavour)]
    assert changed == [False, True, False, True, False]
    rows = await sql.fetch("SELECT payload FROM outbox WHERE key = $1 ORDER BY id OFFSET 1", str(a))
    assert [events_pb2.GraphEvent.FromString(row["payload"]) for row in rows] == [
        events_pb2.GraphEvent(follower_id=a, followee_id=b, kind=kind) for kind in (FAVOURED, UNFAVOURED)
    ]


@pytest.mark.parametrize("method", ["favour", "unfavour"])
async def test_an_unknown_user_is_named(graph: Graph, make_users: MakeUsers, method: str):
    [a] = await make_users(1)
    for actor, other, field in ((a, NOBODY, "favourite_id"), (NOBODY, a, "actor_id")):
        with pytest.raises(NotFound) as caught:
            await getattr(graph.favourites, method)(actor, other)
        assert caught.value.metadata == {"user_id": str(NOBODY), "field": field}


async def test_there_is_room_again_when_a_favourite_has_ended(graph: Graph, store: Store, make_users: MakeUsers):
    a, *others = await make_users(LIMIT + 3)
    await graph.follows.follow_many(a, others)
    for other in others[:LIMIT]:
        await graph.favourites.favour(a, other)
    for end, next_one in ((graph.favourites.unfavour, LIMIT), (graph.follows.unfollow, LIMIT + 1)):
        with pytest.raises(FailedPrecondition) as caught:
            await graph.favourites.favour(a, others[next_one])
        assert (caught.value.reason, caught.value.metadata) == ("FAVOURITES_LIMIT_REACHED", {"limit": str(LIMIT)})
        await end(a, others[next_one - LIMIT])
        assert await graph.favourites.favour(a, others[next_one])
    assert await favourites_of(store, a) == others[2:]


async def test_the_limit_is_exact_however_many_ask_at_once(
    open_database: OpenDatabase, graph: Graph, caches: CacheStore, store: Store, make_users: MakeUsers
):
    a, *others = await make_users(25)
    await graph.follows.follow_many(a, others)
    favourites = Favourites(FavouriteStore(await open_database(postgres_pool_size=16)), caches, LIMIT)
    answers = await asyncio.gather(*(favourites.favour(a, other) for other in others), return_exceptions=True)
    made = [other for other, answer in zip(others, answers, strict=True) if answer is True]
    refused = [answer for answer in answers if isinstance(answer, FailedPrecondition)]
    assert (len(made), {error.reason for error in refused}) == (LIMIT, {"FAVOURITES_LIMIT_REACHED"})
    assert len(refused) == len(others) - LIMIT
    assert await favourites_of(store, a) == made


async def test_relationships_tell_who_is_a_favourite_of_the_viewer(graph: Graph, store: Store, make_users: MakeUsers):
    a, b, c = await make_users(3)
    await graph.follows.follow_many(a, [b, c])
    await graph.follows.follow(b, a)
    await graph.favourites.favour(a, b)
    assert await Relationships(store).get_many(a, [c, b]) == [
        Relationship(c, following=True, followed_by=False),
        Relationship(b, following=True, followed_by=True, favourite=True),
    ]
    assert not (await Relationships(store).get_many(b, [a]))[0].favourite


async def test_favourites_among_thousands_of_followees_are_listed_without_reading_the_others(
    open_database: OpenDatabase, make_users: MakeUsers, sql: Sql
):
    a, *others = await make_users(4001)
    follow = (
        "INSERT INTO follows (follower_id, followee_id, favourite) SELECT $1, f, f <= $3 FROM unnest($2::bigint[]) f"
    )
    await sql.execute(follow, a, others, others[LIMIT - 1])
    await sql.execute("VACUUM ANALYZE follows")
    reads = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE relname = 'follows'"
    await sql.fetchval("SELECT pg_stat_force_next_flush()")
    before: int = await sql.fetchval(reads)
    database = await open_database(postgres_pool_size=1)
    for _ in range(8):  # a plan for any arguments is made after some for certain ones
        page = await UserLists(Store(database), 100).page(Side.FAVOURITES, a, 50, "")
        assert {user.id for user in page.users} == set(others[:LIMIT])
    async with database.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    assert 8 * LIMIT <= await sql.fetchval(reads) - before < 8 * 10 * LIMIT
