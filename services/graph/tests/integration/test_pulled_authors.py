"""The index of pulled authors in PostgreSQL: who enters it, that they stay, and that no reader misses anybody."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import pytest
from feedkit.postgres import Database
from graph_service import pulled_store
from graph_service.cache_store import CacheStore
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.pulled_authors import PulledAuthors
from graph_service.pulled_store import PulledAuthorStore

pytestmark = pytest.mark.integration

MakeUsers = Callable[[int], Awaitable[list[int]]]
MakeCrowd = Callable[[int], Awaitable[tuple[int, list[int]]]]
OpenDatabase = Callable[..., Awaitable[Database]]
UNREACHED = 2**62
"""A threshold above every follower count."""


@pytest.fixture
def authors(database: Database) -> PulledAuthors:
    return PulledAuthors(PulledAuthorStore(database))


async def pulled(authors: PulledAuthors, author_ids: Sequence[int], threshold: int) -> list[bool]:
    return [decision.pulled for decision in await authors.classify(author_ids, threshold)]


async def sequences(sql: "asyncpg.Connection[asyncpg.Record]", author_ids: Sequence[int]) -> dict[int, int]:
    rows = await sql.fetch("SELECT author_id, sequence FROM pulled_authors WHERE author_id = ANY ($1)", author_ids)
    return {row["author_id"]: row["sequence"] for row in rows}


# --- who is pulled ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "is_pulled"), [(31, False), (30, True), (29, True), (1, True), (0, True)])
async def test_an_author_is_pulled_from_as_many_followers_as_the_threshold(
    authors: PulledAuthors, make_crowd: MakeCrowd, threshold: int, is_pulled: bool
):
    author, _ = await make_crowd(30)
    assert await authors.classify([author], threshold) == [(author, is_pulled, 30, False)]


async def test_at_threshold_0_even_those_whom_nobody_knows_are_pulled(authors: PulledAuthors):
    assert await authors.classify([2**63 - 1], 0) == [(2**63 - 1, True, 0, False)]


async def test_there_is_one_decision_for_each_author_in_the_order_asked(authors: PulledAuthors, make_crowd: MakeCrowd):
    large, small = (await make_crowd(20))[0], (await make_crowd(3))[0]
    decisions = await authors.classify([small, 2**63 - 2, large, small], 20)
    assert decisions == [
        (small, False, 3, False),
        (2**63 - 2, False, 0, False),
        (large, True, 20, False),
    ]


async def test_nobody_asked_for_is_no_decision(authors: PulledAuthors):
    assert await authors.classify([], 0) == []


async def test_an_author_stays_pulled_when_the_threshold_rises(authors: PulledAuthors, make_crowd: MakeCrowd):
    author, _ = await make_crowd(10)
    assert [await pulled(authors, [author], threshold) for threshold in (10, 11, UNREACHED)] == [[True]] * 3


async def test_an_author_stays_pulled_when_followers_leave(
    authors: PulledAuthors, database: Database, caches: CacheStore, make_crowd: MakeCrowd
):
    author, followers = await make_crowd(10)
    await authors.classify([author], 10)
    await Follows(FollowStore(database), caches, 5000).unfollow(followers[0], author)
    assert await authors.classify([author], 10) == [(author, True, 9, False)]


async def test_an_author_who_is_not_pulled_is_not_in_the_index(
    authors: PulledAuthors, make_crowd: MakeCrowd, sql: "asyncpg.Connection[asyncpg.Record]"
):
    author, _ = await make_crowd(10)
    await authors.classify([author], 11)
    assert await sequences(sql, [author]) == {}
    assert author not in (await authors.changes_since(0)).entered_author_ids


async def test_every_pulled_decision_is_noted_with_its_time(
    authors: PulledAuthors, make_crowd: MakeCrowd, sql: "asyncpg.Connection[asyncpg.Record]"
):
    author, _ = await make_crowd(10)
    noted = "SELECT sequence, decided_at FROM pulled_authors WHERE author_id = $1"
    rows: list[asyncpg.Record] = []
    for threshold in (10, 10, UNREACHED):
        await authors.classify([author], threshold)
        rows += await sql.fetch(noted, author)
    assert [row["sequence"] for row in rows] == [1, 2, 3]
    times = [row["decided_at"] for row in rows]
    assert times == sorted(set(times))


async def test_ordinary_authors_take_one_round_trip(open_database: OpenDatabase, make_users: MakeUsers):
    statements: list[str] = []
    database = await open_database(postgres_pool_size=1)
    authors, users = PulledAuthors(PulledAuthorStore(database)), await make_users(1000)
    # A new connection asks for the types of arrays once.
    await authors.classify(users, 1)
    async with database.connection() as connection:
        connection.add_query_logger(lambda query: statements.append(query.query))
    await authors.classify(users, 1)
    assert len(statements) == 1


async def test_a_decision_about_ordinary_authors_writes_nothing(database: Database, make_users: MakeUsers):
    users = await make_users(10)
    async with database.transaction() as connection:
        await connection.fetch(pulled_store.DECIDE, users)
        assert await connection.fetchval("SELECT pg_current_xact_id_if_assigned() IS NULL")


# --- what a reader learns ---------------------------------------------------------------------------------------------


async def test_the_version_grows_when_somebody_enters_and_only_then(authors: PulledAuthors, make_users: MakeUsers):
    a, b = await make_users(2)
    before = (await authors.changes_since(0)).version
    await authors.classify([a], 0)
    first = await authors.changes_since(before)
    await authors.classify([a], 0)
    assert (await authors.changes_since(before)) == first
    await authors.classify([b, a], 0)
    second = await authors.changes_since(first.version)
    assert before < first.version < second.version
    assert (first.entered_author_ids, second.entered_author_ids) == ([a], [b])


async def test_who_knows_the_latest_version_learns_of_nobody(authors: PulledAuthors, make_users: MakeUsers):
    await authors.classify(await make_users(3), 0)
    everybody = await authors.changes_since(0)
    assert len(everybody.entered_author_ids) >= 3
    assert await authors.changes_since(everybody.version) == (everybody.version, [], [])


async def test_a_reader_from_before_the_database_was_set_back_learns_of_everybody(
    authors: PulledAuthors, make_users: MakeUsers
):
    await authors.classify(await make_users(3), 0)
    everybody = await authors.changes_since(0)
    told = await authors.changes_since(everybody.version + 5)
    assert (told.version, told.entered_author_ids) == (everybody.version, everybody.entered_author_ids)


# --- leaving ----------------------------------------------------------------------------------------------------------


async def sequence_of(authors: PulledAuthors, author: int) -> int:
    """The sequence of an author in the index, as those who let authors leave read it."""
    return next(a.sequence for a in await authors.shrunk(UNREACHED, 1_000_000) if a.author_id == author)


async def test_an_author_who_has_left_is_not_pulled_and_every_reader_is_told(
    authors: PulledAuthors, make_crowd: MakeCrowd
):
    author, _ = await make_crowd(10)
    before = (await authors.changes_since(0)).version
    await authors.classify([author], 10)
    inside = (await authors.changes_since(before)).version
    assert await authors.leave(author, 1)
    assert await authors.changes_since(inside) == (inside + 1, [], [author])
    # Also one who has not heard of them before.
    assert await authors.changes_since(before) == (inside + 1, [], [author])
    everybody = await authors.changes_since(0)
    assert author not in {*everybody.entered_author_ids, *everybody.left_author_ids}
    assert await authors.classify([author], 11) == [(author, False, 10, False)]


async def test_an_author_who_enters_again_is_told_of_as_in_it(authors: PulledAuthors, make_crowd: MakeCrowd):
    author, _ = await make_crowd(10)
    await authors.classify([author], 10)
    inside = (await authors.changes_since(0)).version
    await authors.leave(author, 1)
    outside = (await authors.changes_since(0)).version
    await authors.classify([author], 10)
    for known in (inside, outside):
        assert await authors.changes_since(known) == (inside + 2, [author], [])
    assert (await authors.changes_since(0)).entered_author_ids[-1] == author


async def test_an_author_of_whom_it_was_decided_again_stays(authors: PulledAuthors, make_crowd: MakeCrowd):
    author, _ = await make_crowd(10)
    await authors.classify([author], 10)
    read = await sequence_of(authors, author)
    await authors.classify([author], UNREACHED)
    before = await authors.changes_since(0)
    assert not await authors.leave(author, read)
    assert await authors.changes_since(0) == before
    assert await authors.leave(author, read + 1)


async def test_what_was_read_before_an_author_left_and_came_back_lets_nobody_leave(
    authors: PulledAuthors, make_crowd: MakeCrowd
):
    author, _ = await make_crowd(10)
    await authors.classify([author], 10)
    stale = await sequence_of(authors, author)
    await authors.leave(author, stale)
    await authors.classify([author], 10)
    assert not await authors.leave(author, stale)
    assert await sequence_of(authors, author) > stale


async def test_who_is_not_in_the_index_cannot_leave_it(authors: PulledAuthors, make_users: MakeUsers):
    [author] = await make_users(1)
    before = await authors.changes_since(0)
    assert not await authors.leave(author, 1)
    assert await authors.changes_since(0) == before


async def test_a_decision_that_commits_while_leaving_waits_keeps_the_author(
    authors: PulledAuthors, make_crowd: MakeCrowd, sql: "asyncpg.Connection[asyncpg.Record]"
):
    author, _ = await make_crowd(10)
    await authors.classify([author], 10)
    async with sql.transaction():
        await sql.fetch(pulled_store.DECIDE, [author])
        leaving = asyncio.create_task(authors.leave(author, 1))
        await until_somebody_waits(sql)
    assert not await leaving
    assert await pulled(authors, [author], UNREACHED) == [True]


async def test_a_decision_that_waited_for_leaving_finds_the_author_outside(
    authors: PulledAuthors, make_crowd: MakeCrowd, sql: "asyncpg.Connection[asyncpg.Record]"
):
    author, _ = await make_crowd(10)
    await authors.classify([author], 10)
    async with sql.transaction():
        assert await sql.fetchval(pulled_store.LEAVE, author, 1)
        deciding = asyncio.create_task(pulled(authors, [author], UNREACHED))
        await until_somebody_waits(sql)
    assert await deciding == [False]


async def test_an_entry_that_waited_for_leaving_goes_on_from_its_sequence(
    authors: PulledAuthors, make_crowd: MakeCrowd, sql: "asyncpg.Connection[asyncpg.Record]"
):
    author, _ = await make_crowd(10)
    await authors.classify([author], 10)
    async with sql.transaction():
        # Whoever enters has to find out first that the author is outside.
        assert await sql.fetchval(pulled_store.LEAVE, author, 1)
        entering = asyncio.create_task(authors.classify([author], 10))
        await until_somebody_waits(sql)
    await entering
    assert await sequences(sql, [author]) == {author: 2}


async def test_a_leave_that_commits_late_is_not_stepped_over(
    authors: PulledAuthors, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    late, later = await make_users(2)
    await authors.classify([late], 0)
    known = (await authors.changes_since(0)).version
    async with sql.transaction():
        assert await sql.fetchval(pulled_store.LEAVE, late, 1)
        entering = asyncio.create_task(authors.classify([later], 0))
        await until_somebody_waits(sql)
        assert await authors.changes_since(known) == (known, [], [])
    await entering
    assert await authors.changes_since(known) == (known + 2, [later], [late])


async def test_shrunk_are_those_in_the_index_with_fewer_followers_the_smallest_first(
    authors: PulledAuthors, make_crowd: MakeCrowd
):
    crowds = {size: (await make_crowd(size))[0] for size in (13, 11, 12, 14)}
    outside, _ = await make_crowd(5)
    await authors.classify(list(crowds.values()), 10)
    ours = {*crowds.values(), outside}
    found = [author for author in await authors.shrunk(14, 1_000_000) if author.author_id in ours]
    assert found == [(crowds[size], size, 1) for size in (11, 12, 13)]
    smallest = await authors.shrunk(14, 2)
    assert len(smallest) == 2
    assert list(smallest) == (await authors.shrunk(14, 1_000_000))[:2]
    assert await authors.shrunk(0, 10) == []


# --- many at once -----------------------------------------------------------------------------------------------------


async def test_many_decisions_about_a_new_author_let_them_in_once(
    open_database: OpenDatabase, make_crowd: MakeCrowd, sql: "asyncpg.Connection[asyncpg.Record]"
):
    authors = PulledAuthors(PulledAuthorStore(await open_database(postgres_pool_size=32)))
    author, _ = await make_crowd(10)
    before = (await authors.changes_since(0)).version
    decisions = await asyncio.gather(*(authors.classify([author], 10) for _ in range(100)))
    assert decisions == [[(author, True, 10, False)]] * 100
    assert (await authors.changes_since(before)).entered_author_ids == [author]
    assert await sequences(sql, [author]) == {author: 100}


async def test_decisions_about_overlapping_authors_in_any_order_never_wait_in_a_circle(
    open_database: OpenDatabase, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    authors = PulledAuthors(PulledAuthorStore(await open_database(postgres_pool_size=32)))
    users, chance = await make_users(40), random.Random(3)
    asked = [chance.sample(users, 20) for _ in range(300)]
    decisions = await asyncio.gather(*(authors.classify(some, 0) for some in asked))
    assert all(decision.pulled for some in decisions for decision in some)
    assert await sequences(sql, users) == {user: sum(user in some for some in asked) for user in users}


async def test_an_entry_that_commits_late_is_not_stepped_over(
    authors: PulledAuthors, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    late, later = await make_users(2)
    known = (await authors.changes_since(0)).version
    async with sql.transaction():
        await sql.execute(pulled_store.ENTER, [late], await sql.fetchval(pulled_store.NEXT_VERSION))
        entering = asyncio.create_task(authors.classify([later], 0))
        await until_somebody_waits(sql)
        assert await authors.changes_since(known) == (known, [], [])
    await entering
    assert (await authors.changes_since(known)).entered_author_ids == [late, later]


async def until_somebody_waits(sql: "asyncpg.Connection[asyncpg.Record]") -> None:
    async with asyncio.timeout(10):
        # PostgreSQL tells nobody of a wait.
        while not await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_reader_who_asks_from_version_to_version_knows_who_is_in_it(
    database: Database, open_database: OpenDatabase, make_users: MakeUsers
):
    """While authors enter, leave and enter again."""
    reader = PulledAuthors(PulledAuthorStore(database))
    authors = PulledAuthors(PulledAuthorStore(await open_database(postgres_pool_size=32)))
    users = await make_users(150)
    acknowledged: dict[int, int] = {}  # who is in the index, and for which time

    async def come_and_go(user: int, chance: random.Random) -> None:
        for time in range(chance.randrange(1, 4)):
            assert await pulled(authors, [user], 0) == [True]
            acknowledged[user] = time
            if chance.random() < 0.5:
                # From here until they have come back, nothing is said about them.
                del acknowledged[user]
                assert await authors.leave(user, await sequence(user))

    async def sequence(user: int) -> int:
        async with database.connection() as connection:
            return await connection.fetchval("SELECT sequence FROM pulled_authors WHERE author_id = $1", user)

    going = asyncio.gather(*(come_and_go(user, random.Random(user - users[0])) for user in users))
    known, learned, ended = 0, set[int](), False
    while not ended:
        ended, before = going.done(), set(acknowledged.items())
        change = await reader.changes_since(known)
        assert change.version >= known
        known = change.version
        assert not set(change.entered_author_ids) & set(change.left_author_ids)
        learned = (learned | set(change.entered_author_ids)) - set(change.left_author_ids)
        # Whoever was acknowledged before the question and has not left meanwhile.
        assert learned >= {user for user, _ in before & acknowledged.items()}
    await going
    assert learned & set(users) == acknowledged.keys()


async def test_a_reader_who_asks_from_version_to_version_misses_nobody(
    database: Database, open_database: OpenDatabase, make_users: MakeUsers
):
    reader = PulledAuthors(PulledAuthorStore(database))
    authors = PulledAuthors(PulledAuthorStore(await open_database(postgres_pool_size=32)))
    users = await make_users(400)
    acknowledged: set[int] = set()

    async def enter(user: int) -> None:
        assert await pulled(authors, [user], 0) == [True]
        acknowledged.add(user)

    entering = asyncio.gather(*(enter(user) for user in users))
    known, learned, reads, ended = 0, set[int](), 0, False
    while not ended:
        ended, before = entering.done(), set(acknowledged)
        change = await reader.changes_since(known)
        assert change.version >= known
        known, reads = change.version, reads + 1
        learned.update(change.entered_author_ids)
        # Whoever was acknowledged before the question is in the answer, or was in an earlier one.
        assert learned >= before
    await entering
    assert learned >= set(users)
    assert reads > 5
