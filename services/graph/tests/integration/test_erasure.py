"""Erasing deleted users: slices, exact counts, an event for each follow, and stragglers."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import FailedPrecondition
from feedkit.postgres import Database
from graph_service import edge_store
from graph_service.account_store import AccountStore
from graph_service.accounts import Accounts
from graph_service.activity import Activity
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.erasure import SLICE, Erased, Erasure
from graph_service.erasure_store import ErasureStore
from graph_service.favourite_store import FavouriteStore
from graph_service.favourites import Favourites
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.home_view_store import HomeViewStore
from graph_service.home_views import HomeView, HomeViews
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.pulled_authors import PulledAuthors
from graph_service.pulled_store import PulledAuthorStore
from graph_service.store import Store

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
MakeCrowd = Callable[[int], Awaitable[tuple[int, list[int]]]]
OpenDatabase = Callable[..., Awaitable[Database]]
UNFOLLOWED = events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED
ENDLESS = 1000
"""More calls than any erasure here takes."""


@pytest.fixture
def follows(database: Database, caches: CacheStore) -> Follows:
    return Follows(FollowStore(database), caches, 5000)


@pytest.fixture
def blocks(database: Database, caches: CacheStore) -> Blocks:
    return Blocks(BlockStore(database), caches, 5000)


@pytest.fixture
def mutes(database: Database, caches: CacheStore) -> Mutes:
    return Mutes(MuteStore(database), caches, 5000)


@pytest.fixture
def accounts(database: Database, caches: CacheStore) -> Accounts:
    return Accounts(AccountStore(database), caches)


@pytest.fixture
def erasure(database: Database) -> Erasure:
    return Erasure(ErasureStore(database))


async def erase_all(erasure: Erasure, user: int) -> list[Erased]:
    """What each call erased, until nothing was left."""
    calls: list[Erased] = []
    while not calls or not calls[-1].done:
        assert len(calls) < ENDLESS
        calls.append(await erasure.erase(user))
    return calls


async def rows_of(sql: Sql, user: int) -> int:
    """How many rows lead to a user or come from one, the tombstone aside."""
    tables = {
        "follows": ("follower_id", "followee_id"),
        "blocks": ("blocker_id", "blocked_id"),
        "mutes": ("muter_id", "muted_id"),
        "follower_counts": ("user_id",),
        "view_choices": ("user_id",),
        "activity": ("user_id",),
        "pulled_authors": ("author_id",),
    }
    counts = [f"(SELECT count(*) FROM {table} WHERE $1 IN ({', '.join(ids)}))" for table, ids in tables.items()]  # noqa: S608
    return await sql.fetchval(f"SELECT {' + '.join(counts)}", user)


async def until_somebody_waits(sql: Sql) -> None:
    async with asyncio.timeout(10):
        # PostgreSQL tells nobody of a wait.
        while not await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def unfollowed_events(sql: Sql, keys: list[int]) -> Counter[tuple[int, int]]:
    query = "SELECT payload FROM outbox WHERE key = ANY ($1) AND type = 'feed.events.v1.GraphEvent'"
    rows = await sql.fetch(query, list(map(str, keys)))
    events = [events_pb2.GraphEvent.FromString(row["payload"]) for row in rows]
    return Counter((event.follower_id, event.followee_id) for event in events if event.kind == UNFOLLOWED)


async def test_nothing_is_left_but_the_tombstone(  # noqa: PLR0917 (all that there can be of a user)
    follows: Follows,
    blocks: Blocks,
    mutes: Mutes,
    accounts: Accounts,
    erasure: Erasure,
    database: Database,
    caches: CacheStore,
    make_users: MakeUsers,
    sql: Sql,
):
    gone, fan, idol, enemy, bore = await make_users(5)
    pulled = PulledAuthors(PulledAuthorStore(database))
    await follows.follow(fan, gone)
    await follows.follow_many(gone, [idol, fan])
    for a, b in ((gone, enemy), (enemy, gone)):
        await blocks.block(a, b)
    for a, b in ((gone, bore), (bore, gone)):
        await mutes.mute(a, b)
    favourites = Favourites(FavouriteStore(database), caches, 50)
    for a, b in ((gone, idol), (fan, gone)):
        await favourites.favour(a, b)
    for view in (HomeView.RANKED, HomeView.LATEST, HomeView.RANKED):
        await HomeViews(HomeViewStore(database), caches).choose(gone, view)
    await Activity(Store(database), 100).record(gone)
    await pulled.classify([gone], 0)
    known = (await pulled.changes_since(0)).version
    await accounts.delete(gone)
    assert await erase_all(erasure, gone) == [(7, True)]
    assert await rows_of(sql, gone) == 0
    tombstone = await sql.fetchrow("SELECT name, standing, following_count, home_view FROM users WHERE id = $1", gone)
    assert tombstone is not None and tuple(tombstone) == ("", 2, 0, 0)
    assert (await pulled.changes_since(known)).left_author_ids == [gone]


async def test_every_follow_that_ends_is_told_of_once_and_counted(
    follows: Follows, accounts: Accounts, database: Database, make_users: MakeUsers, sql: Sql
):
    gone, *others = await make_users(41)
    fans, idols = others[:25], others[15:]
    for fan in fans:
        await follows.follow(fan, gone)
    await follows.follow_many(fans[0], others[1:])
    await follows.follow_many(gone, idols)
    await accounts.delete(gone)
    calls = await erase_all(Erasure(ErasureStore(database), 7), gone)
    assert [call.edges for call in calls] == [7] * 7 + [1]
    expected = [(fan, gone) for fan in fans] + [(gone, idol) for idol in idols]
    assert await unfollowed_events(sql, [gone, *others]) == Counter(expected)
    counts = {user.id: (user.follower_count, user.following_count) for user in await Store(database).users(others)}
    assert counts == {other: (int(other != fans[0]), 39 if other == fans[0] else 0) for other in others}


async def test_a_celebrity_is_erased_in_slices(
    make_crowd: MakeCrowd, accounts: Accounts, erasure: Erasure, store: Store, sql: Sql
):
    celebrity, followers = await make_crowd(2 * SLICE + 10)
    await accounts.delete(celebrity)
    assert await erase_all(erasure, celebrity) == [(SLICE, False), (SLICE, False), (10, True)]
    assert {user.following_count for user in await store.users(followers)} == {0}
    assert await rows_of(sql, celebrity) == 0


async def test_what_a_slice_leaves_room_for_is_choices_of_a_view(
    follows: Follows, accounts: Accounts, database: Database, make_users: MakeUsers, sql: Sql
):
    gone, *idols = await make_users(5)
    await follows.follow_many(gone, idols)
    await sql.execute("INSERT INTO view_choices (user_id, view) SELECT $1, n % 2 FROM generate_series(1, 12) n", gone)
    await accounts.delete(gone)
    erasure = Erasure(ErasureStore(database), 7)
    left: list[int] = []
    for erased in ((4, False), (0, False), (0, True)):
        assert await erasure.erase(gone) == erased
        left.append(await rows_of(sql, gone))
    assert left == [9, 2, 0]


async def test_a_slice_of_a_celebrity_reads_no_more_than_its_own_followers(
    make_crowd: MakeCrowd, accounts: Accounts, open_database: OpenDatabase, sql: Sql
):
    celebrity, _ = await make_crowd(20_000)
    await accounts.delete(celebrity)
    await sql.execute("VACUUM ANALYZE follows")
    reads = """
    SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'follows')::bigint, seq_tup_read
    FROM pg_stat_user_tables WHERE relname = 'follows'
    """
    database = await open_database(postgres_pool_size=1)
    by_index, whole = await sql.fetchrow(reads) or (0, 0)
    for _ in range(8):  # a plan for any arguments is made after some for certain ones
        assert await Erasure(ErasureStore(database), 50).erase(celebrity) == (50, False)
    async with database.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    by_index_after, whole_after = await sql.fetchrow(reads) or (0, 0)
    # Found, found to stand still, and ended, each once; what was ended just before is passed on the way.
    assert 3 * 400 <= by_index_after - by_index < 10 * 400
    assert whole_after == whole


async def test_an_erased_user_stays_erased_however_often_that_is_asked_for(
    make_crowd: MakeCrowd, accounts: Accounts, erasure: Erasure, sql: Sql
):
    celebrity, followers = await make_crowd(5)
    await accounts.delete(celebrity)
    await erase_all(erasure, celebrity)
    told = await unfollowed_events(sql, followers)
    assert await erase_all(erasure, celebrity) == [(0, True)]
    assert await unfollowed_events(sql, followers) == told


async def test_many_who_erase_the_same_users_at_once_end_each_follow_once(
    open_database: OpenDatabase,
    make_users: MakeUsers,
    caches: CacheStore,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
):
    """All of them follow, block or mute one another, and none of it is tried again: a deadlock would be an error."""
    monkeypatch.setattr(edge_store, "ATTEMPTS", 1)
    database = await open_database(postgres_pool_size=16)
    users = await make_users(24)
    pairs = [(a, b) for a in users for b in users if a != b]
    follows = [pair for pair in pairs if sum(pair) % 2]
    for table, edges in (("follows", follows), ("blocks", set(pairs) - set(follows)), ("mutes", pairs)):
        await sql.executemany(f"INSERT INTO {table} VALUES ($1, $2)", edges)  # noqa: S608
    await sql.execute("UPDATE users SET following_count = 12 WHERE id = ANY ($1)", users)
    counts = Counter((b, edge_store.shard_of(a)) for a, b in follows)
    await sql.executemany("INSERT INTO follower_counts VALUES ($1, $2, $3)", [(*at, n) for at, n in counts.items()])
    accounts = Accounts(AccountStore(database), caches)
    await asyncio.gather(*(accounts.delete(user) for user in users))
    runs = [
        erase_all(Erasure(ErasureStore(database), size), user) for size in (5, 500) for user in users for _ in range(2)
    ]
    ended = sum(call.edges for calls in await asyncio.gather(*runs) for call in calls)
    assert ended == 2 * len(pairs)
    assert await unfollowed_events(sql, users) == Counter(follows)
    assert [await rows_of(sql, user) for user in users] == [0] * len(users)


async def test_counts_are_locked_by_user_id(
    follows: Follows, accounts: Accounts, erasure: Erasure, make_users: MakeUsers, sql: Sql
):
    low, high, gone = await make_users(3)
    await follows.follow_many(gone, [low, high])
    await accounts.delete(gone)
    lock = "SELECT FROM follower_counts WHERE user_id = $1 FOR UPDATE NOWAIT"
    async with asyncio.TaskGroup() as tasks, sql.transaction():
        await sql.execute(lock, low)
        tasks.create_task(erasure.erase(gone))
        await until_somebody_waits(sql)
        # Raises where the higher row was taken first.
        await sql.execute(lock, high)


@pytest.mark.parametrize("edge", [("blocks", "blocker_id", "blocked_id"), ("mutes", "muter_id", "muted_id")])
@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_blocks_and_mutes_are_locked_by_their_two_users(
    erasure: Erasure, make_users: MakeUsers, sql: Sql, edge: tuple[str, str, str], gone: int
):
    table, actor, other = edge
    users = await make_users(3)
    edges = [(a, b) for a in users for b in users if a != b and users[gone] in {a, b}]
    await sql.executemany(f"INSERT INTO {table} VALUES ($1, $2)", edges)  # noqa: S608
    await sql.execute("UPDATE users SET standing = 2 WHERE id = $1", users[gone])
    lock = f"SELECT FROM {table} WHERE {actor} = $1 AND {other} = $2 FOR UPDATE NOWAIT"
    async with asyncio.TaskGroup() as tasks, sql.transaction():
        first, *rest = sorted(edges)
        await sql.execute(lock, *first)
        tasks.create_task(erasure.erase(users[gone]))
        await until_somebody_waits(sql)
        for later in rest:
            await sql.execute(lock, *later)


async def test_a_straggler_is_erased_by_the_next_call(
    follows: Follows, accounts: Accounts, erasure: Erasure, make_users: MakeUsers, sql: Sql
):
    """A follow that found the user before the deletion may commit after all has been erased."""
    gone, fan, idol = await make_users(3)
    async with sql.transaction():
        # The last that a follow does is counting at the idol's, for which this one waits.
        await sql.execute("INSERT INTO follower_counts VALUES ($1, $2, 0)", idol, edge_store.shard_of(fan))
        following = asyncio.create_task(follows.follow_many(fan, [gone, idol]))
        await until_somebody_waits(sql)
        await accounts.delete(gone)
    await following
    assert await rows_of(sql, gone) == 2
    assert await erasure.erase(gone) == (1, True)
    assert await rows_of(sql, gone) == 0


async def test_a_call_beside_a_straggler_neither_waits_for_ever_nor_harms_its_count(
    accounts: Accounts, erasure: Erasure, make_users: MakeUsers, sql: Sql
):
    gone, fan = await make_users(2)
    await accounts.delete(gone)
    async with sql.transaction():
        await sql.execute("INSERT INTO follows VALUES ($1, $2)", fan, gone)
        await sql.execute("UPDATE users SET following_count = 1 WHERE id = $1", fan)
        await sql.execute("INSERT INTO follower_counts VALUES ($1, $2, 1)", gone, edge_store.shard_of(fan))
        assert await erasure.erase(gone) == (0, True)
    assert await erasure.erase(gone) == (1, True)
    assert await rows_of(sql, gone) == 0


async def test_nothing_of_a_user_who_is_not_deleted_is_erased(
    follows: Follows, accounts: Accounts, erasure: Erasure, make_users: MakeUsers, sql: Sql
):
    user, fan = await make_users(2)
    await follows.follow(fan, user)
    await accounts.suspend(user)
    with pytest.raises(FailedPrecondition) as caught:
        await erasure.erase(user)
    assert (caught.value.reason, caught.value.metadata) == ("USER_NOT_DELETED", {"user_id": str(user)})
    assert await rows_of(sql, user) == 2


async def test_activity_is_not_recorded_behind_a_deletion(
    accounts: Accounts, store: Store, make_users: MakeUsers, sql: Sql
):
    """Nothing would tell of it, and so nothing erase it."""
    [gone] = await make_users(1)
    async with sql.transaction():
        await sql.execute("UPDATE users SET standing = 2 WHERE id = $1", gone)
        recording = asyncio.create_task(store.record_activity(gone))
        await until_somebody_waits(sql)
    await recording
    assert await rows_of(sql, gone) == 0
