"""Erasing what somebody wrote who has been deleted: all of it, slice by slice, whatever goes on beside it."""

import asyncio
from typing import TypeAlias

import asyncpg
import pytest
from feedkit.errors import FailedPrecondition
from post_service import erasure as use_cases
from post_service.authors import Standing
from post_service.erasure import Erased, Erasure
from post_service.post import Draft
from post_service.posts import Posts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

GONE = 7
DRAFT = Draft(GONE, "text", ())


async def write(posts: Posts, count: int, author_id: int = GONE) -> list[int]:
    """Write posts, each with a key."""
    draft = DRAFT._replace(author_id=author_id)
    return [(await posts.create(draft, f"key {number}")).post.id for number in range(count)]


@pytest.fixture(autouse=True)
def slice_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small slices."""
    monkeypatch.setattr(use_cases, "SLICE", 3)


async def left(sql: Sql, author_id: int = GONE) -> tuple[int, int]:
    """How many posts and keys there are of an author."""
    row = await sql.fetchrow(
        "SELECT (SELECT count(*) FROM posts WHERE author_id = $1),"
        " (SELECT count(*) FROM idempotency_keys WHERE author_id = $1)",
        author_id,
    )
    assert row
    return row[0], row[1]


async def test_posts_and_keys_are_gone_for_good_after_some_calls(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql
) -> None:
    written = await write(posts, 7)
    for post_id in written[:4]:
        await posts.delete(GONE, post_id)
    standings[GONE] = None
    assert [await erasure.erase(GONE) for _ in range(3)] == [Erased(3, False), Erased(3, False), Erased(1, True)]
    assert await left(sql) == (0, 0)


async def test_keys_that_outnumber_the_posts_are_gone_too(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql
) -> None:
    written = await write(posts, 5)
    await sql.execute("DELETE FROM posts WHERE id <> $1", written[0])
    standings[GONE] = None
    assert [await erasure.erase(GONE) for _ in range(2)] == [Erased(1, False), Erased(0, True)]
    assert await left(sql) == (0, 0)


async def test_where_nothing_is_left_there_is_nothing_to_do(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None]
) -> None:
    standings[GONE] = None
    assert await erasure.erase(GONE) == Erased(0, True)


async def test_others_keep_what_they_wrote(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql
) -> None:
    await write(posts, 2)
    others = await write(posts, 4, author_id=8)
    await posts.delete(8, others[0])
    standings[GONE] = None
    assert (await erasure.erase(GONE)).done
    assert await left(sql, 8) == (4, 4)


@pytest.mark.parametrize("standing", Standing)
async def test_nothing_is_erased_of_whoever_is_still_there(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql, standing: Standing
) -> None:
    written = await write(posts, 2)
    standings[GONE] = standing
    with pytest.raises(FailedPrecondition) as refusal:
        await erasure.erase(GONE)
    assert refusal.value.reason == "USER_NOT_DELETED"
    assert await left(sql) == (2, 2)
    assert len(await posts.batch(written)) == 2


async def test_no_event_tells_of_single_posts(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql
) -> None:
    """That of their author does."""
    await write(posts, 2)
    standings[GONE] = None
    await erasure.erase(GONE)
    assert await sql.fetchval("SELECT count(*) FROM outbox") == 2


async def test_a_post_that_is_being_written_is_found_by_a_later_call_and_its_event_is_told(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql
) -> None:
    """Its author was there when its creation began, and its transaction ends after a slice that was thought the last."""
    async with sql.transaction():
        await sql.execute("LOCK TABLE outbox IN EXCLUSIVE MODE")
        straggling = asyncio.create_task(posts.create(DRAFT, "straggler"))
        async with asyncio.timeout(10):
            # PostgreSQL tells nobody of a wait.
            while not await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        standings[GONE] = None
        assert await erasure.erase(GONE) == Erased(0, True)
    await straggling
    assert await sql.fetchval("SELECT key FROM outbox") == str(GONE)
    assert await erasure.erase(GONE) == Erased(1, True)
    assert await left(sql) == (0, 0)


async def test_a_post_that_somebody_holds_is_left_for_a_later_call(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql
) -> None:
    written = await write(posts, 2)
    standings[GONE] = None
    async with sql.transaction():
        await sql.execute("SELECT FROM posts WHERE id = $1 FOR UPDATE", written[0])
        assert await erasure.erase(GONE) == Erased(1, False)
    assert await erasure.erase(GONE) == Erased(1, True)


async def test_calls_at_once_do_the_work_once(
    posts: Posts, erasure: Erasure, standings: dict[int, Standing | None], sql: Sql
) -> None:
    await write(posts, 20)
    standings[GONE] = None
    erased = 0
    while not (answers := await asyncio.gather(*(erasure.erase(GONE) for _ in range(4))))[-1].done:
        erased += sum(answer.posts for answer in answers)
    erased += sum(answer.posts for answer in answers)
    assert (erased, await left(sql)) == (20, (0, 0))


async def test_deleted_posts_are_found_by_an_index(posts: Posts, sql: Sql) -> None:
    for author_id in range(1, 21):
        await write(posts, 2, author_id)
    await sql.execute("UPDATE posts SET deleted = true WHERE author_id % 2 = 0")
    await sql.execute("ANALYZE posts")
    await sql.execute("SET enable_seqscan = off")
    plan = await sql.fetch("EXPLAIN SELECT id FROM posts WHERE author_id = 8 AND deleted LIMIT 500")
    assert "deleted_posts_of_author" in "".join(row[0] for row in plan)
