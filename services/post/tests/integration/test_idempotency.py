"""Idempotency keys in a real PostgreSQL: one key, one post, whoever retries and whatever is going on meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest
from feedkit import deadline
from feedkit.errors import Aborted, FailedPrecondition
from feedkit.postgres import Database
from post_service.idempotency import Key
from post_service.post import Draft
from post_service.posts import Created, Posts
from post_service.store import ExpiredKeys, PostStore

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
OpenDatabase = Callable[..., Awaitable[Database]]

DRAFT = Draft(7, "text", ())


async def test_a_retry_returns_the_first_post_and_writes_nothing(posts: Posts, sql: Sql) -> None:
    first = await posts.create(DRAFT, "k")
    again = await posts.create(DRAFT, "k")
    assert (first.replayed, again) == (False, Created(first.post, replayed=True))
    assert await sql.fetchrow("SELECT (SELECT count(*) FROM posts), (SELECT count(*) FROM outbox)") == (1, 1)


async def test_without_a_key_every_call_is_a_new_post(posts: Posts) -> None:
    assert (await posts.create(DRAFT, "")).post.id != (await posts.create(DRAFT, "")).post.id


async def test_a_retry_returns_the_post_as_first_written_also_when_it_was_deleted(posts: Posts) -> None:
    first = await posts.create(DRAFT, "k")
    await posts.delete(7, first.post.id)
    assert await posts.create(DRAFT, "k") == (first.post, True)


async def test_the_same_key_of_another_author_is_another_key(posts: Posts) -> None:
    first = await posts.create(DRAFT, "k")
    other = await posts.create(DRAFT._replace(author_id=8), "k")
    assert (other.replayed, other.post.id != first.post.id) == (False, True)


async def test_keys_that_differ_in_case_differ(posts: Posts) -> None:
    await posts.create(DRAFT, "key")
    assert not (await posts.create(DRAFT, "KEY")).replayed


async def test_the_same_key_for_another_post_is_refused(posts: Posts, sql: Sql) -> None:
    await posts.create(DRAFT, "k")
    with pytest.raises(FailedPrecondition):
        await posts.create(DRAFT._replace(content="other"), "k")
    assert await sql.fetchval("SELECT count(*) FROM posts") == 1


async def test_an_expired_key_starts_anew(posts: Posts, sql: Sql) -> None:
    first = await posts.create(DRAFT, "k")
    await sql.execute("UPDATE idempotency_keys SET expires_at = now()")
    second = await posts.create(DRAFT._replace(content="other"), "k")
    assert not second.replayed
    assert (await posts.create(DRAFT._replace(content="other"), "k")).post.id == second.post.id != first.post.id


async def test_a_key_is_remembered_for_24_hours(posts: Posts, sql: Sql) -> None:
    await posts.create(DRAFT, "k")
    left = await sql.fetchval("SELECT expires_at - now() FROM idempotency_keys")
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)


async def test_many_at_once_make_one_post(posts: Posts, sql: Sql) -> None:
    created = await asyncio.gather(*(posts.create(DRAFT, "k") for _ in range(30)))
    assert len({answer.post.id for answer in created}) == 1
    assert sorted(answer.replayed for answer in created) == [False] + [True] * 29
    assert await sql.fetchval("SELECT count(*) FROM posts") == 1


async def until_somebody_waits(sql: Sql) -> None:
    async with asyncio.timeout(10):
        while True:
            if await sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                return
            await asyncio.sleep(0.01)


async def test_a_retry_waits_for_the_first_request_to_end(posts: Posts, store: PostStore, sql: Sql) -> None:
    async with store.writing() as first:
        key = Key.of(DRAFT, "k")
        assert await first.claim(key) is None
        retry = asyncio.create_task(posts.create(DRAFT, "k"))
        await until_somebody_waits(sql)
        await first.add(DRAFT.as_post(5), key)
    assert await retry == (DRAFT.as_post(5), True)


class GaveUp(Exception):
    """The first request ends without success."""


async def test_where_the_first_request_fails_the_retry_makes_the_post(posts: Posts, store: PostStore, sql: Sql) -> None:
    async def fail(claimed: asyncio.Event) -> None:
        async with store.writing() as first:
            await first.claim(Key.of(DRAFT, "k"))
            claimed.set()
            await until_somebody_waits(sql)
            raise GaveUp

    failing = asyncio.create_task(fail(claimed := asyncio.Event()))
    await claimed.wait()
    assert not (await posts.create(DRAFT, "k")).replayed
    with pytest.raises(GaveUp):
        await failing


async def test_a_retry_says_before_its_deadline_that_the_first_request_is_still_running(
    posts: Posts, store: PostStore
) -> None:
    async with store.writing() as first:
        await first.claim(Key.of(DRAFT, "k"))
        with deadline.within(0.6), pytest.raises(Aborted) as refusal:
            async with asyncio.timeout(0.6):
                await posts.create(DRAFT, "k")
    assert refusal.value.reason == "IDEMPOTENCY_KEY_IN_FLIGHT"


async def test_waiting_for_a_key_leaves_no_trace_in_a_shared_session(open_database: OpenDatabase) -> None:
    database = await open_database(postgres_pool_size=1)
    async with PostStore(database, key_lifetime=timedelta(1), key_wait_seconds=1.0).writing() as writing:
        await writing.claim(Key.of(DRAFT, "k"))
    async with database.connection() as connection:
        assert await connection.fetchval("SHOW lock_timeout") == "0"


async def test_expired_keys_are_removed_in_bounded_batches_and_others_stay(
    posts: Posts, sql: Sql, open_database: OpenDatabase
) -> None:
    for number in range(5):
        await posts.create(DRAFT, f"old {number}")
    await sql.execute("UPDATE idempotency_keys SET expires_at = now()")
    await posts.create(DRAFT, "new")
    expired = ExpiredKeys(await open_database())
    assert [await expired.remove(3) for _ in range(3)] == [3, 2, 0]
    assert await sql.fetchval("SELECT string_agg(key, ',') FROM idempotency_keys") == "new"


async def test_a_key_that_starts_anew_just_now_is_not_waited_for_by_its_removal(
    store: PostStore, posts: Posts, sql: Sql, open_database: OpenDatabase
) -> None:
    await posts.create(DRAFT, "k")
    await sql.execute("UPDATE idempotency_keys SET expires_at = now()")
    async with store.writing() as writing:
        assert await writing.claim(Key.of(DRAFT, "k")) is None
        assert await ExpiredKeys(await open_database()).remove(10) == 0
