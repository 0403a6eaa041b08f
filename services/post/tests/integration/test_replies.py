"""Replies in a real PostgreSQL: posts that another one counts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feedkit.errors import FailedPrecondition, NotFound
from post_service.authors import Standing
from post_service.engagement import Engagements
from post_service.post import Draft, Edit
from post_service.posts import Posts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Told = Callable[[], Awaitable[list[tuple[str, int, str, int, int]]]]

AUTHOR, REPLIER = 7, 8


@pytest.fixture
async def parent(posts: Posts) -> int:
    return (await posts.create(Draft(AUTHOR, "text", ()), "")).post.id


def reply_to(post_id: int, author_id: int = REPLIER) -> Draft:
    return Draft(author_id, "reply", (), reply_to=post_id)


async def replies_of(engagements: Engagements, post_id: int) -> int:
    return (await engagements.counts([post_id]))[post_id].replies


async def test_a_reply_is_read_back_as_one_and_counted_and_told(
    posts: Posts, engagements: Engagements, parent: int, told: Told
) -> None:
    reply = (await posts.create(reply_to(parent), "")).post
    assert reply.reply_to == parent
    assert await posts.get(reply.id) == reply
    assert (await posts.edit(REPLIER, reply.id, Edit("other", None))).reply_to == parent
    assert await replies_of(engagements, parent) == 1
    assert await told() == [("8", REPLIER, "REPLIED", parent, AUTHOR)]


async def test_a_post_that_replies_to_nothing_says_so(posts: Posts, parent: int, sql: Sql) -> None:
    assert (await posts.get(parent)).reply_to == 0
    assert await sql.fetchval("SELECT reply_to FROM posts") is None


async def test_a_reply_that_is_deleted_counts_no_longer_which_is_told_once(
    posts: Posts, engagements: Engagements, parent: int, told: Told
) -> None:
    reply = (await posts.create(reply_to(parent), "")).post
    for _ in range(3):
        await posts.delete(REPLIER, reply.id)
    assert await replies_of(engagements, parent) == 0
    assert [kind for _, _, kind, _, _ in await told()] == ["REPLIED", "UNREPLIED"]


async def test_many_replies_at_once_are_all_counted(posts: Posts, engagements: Engagements, parent: int) -> None:
    created = await asyncio.gather(*(posts.create(reply_to(parent, author_id), "") for author_id in range(100, 120)))
    deletes = [posts.delete(answer.post.author_id, answer.post.id) for answer in created[:5]]
    await asyncio.gather(*deletes, *(posts.create(reply_to(parent, author_id), "") for author_id in range(200, 210)))
    assert await replies_of(engagements, parent) == 25


async def test_replies_outlive_what_they_reply_to(posts: Posts, parent: int, told: Told) -> None:
    reply = (await posts.create(reply_to(parent), "")).post
    await posts.delete(AUTHOR, parent)
    assert (await posts.get(reply.id)).reply_to == parent
    await posts.delete(REPLIER, reply.id)
    assert [kind for _, _, kind, _, _ in await told()] == ["REPLIED", "UNREPLIED"]


async def test_a_reply_to_what_is_erased_can_be_deleted(posts: Posts, parent: int, sql: Sql, told: Told) -> None:
    reply = (await posts.create(reply_to(parent), "")).post
    await sql.execute("DELETE FROM posts WHERE id = $1", parent)
    await posts.delete(REPLIER, reply.id)
    assert [kind for _, _, kind, _, _ in await told()] == ["REPLIED"]


@pytest.mark.parametrize("deleted", [True, False])
async def test_nobody_replies_to_a_post_that_is_not_there(posts: Posts, parent: int, deleted: bool, sql: Sql) -> None:
    if deleted:
        await posts.delete(AUTHOR, parent)
    missing = parent if deleted else parent + 1
    with pytest.raises(NotFound) as refusal:
        await posts.create(reply_to(missing), "k")
    assert (refusal.value.reason, refusal.value.metadata) == ("POST_NOT_FOUND", {"post_id": str(missing)})
    assert await sql.fetchval("SELECT count(*) FROM posts WHERE author_id = $1", REPLIER) == 0
    assert await sql.fetchval("SELECT count(*) FROM idempotency_keys") == 0


async def test_a_post_that_is_deleted_after_it_was_looked_at_gets_no_reply(posts: Posts, parent: int, sql: Sql) -> None:
    async with sql.transaction():
        # The reply has been let in and waits to be written, while what it replies to goes.
        await sql.execute("LOCK TABLE idempotency_keys IN EXCLUSIVE MODE")
        replying = asyncio.create_task(posts.create(reply_to(parent), "k"))
        async with asyncio.timeout(10):
            # PostgreSQL tells nobody of a wait.
            while not await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await sql.execute("UPDATE posts SET deleted = true WHERE id = $1", parent)
    with pytest.raises(NotFound):
        await replying
    assert await sql.fetchval("SELECT count(*) FROM posts") == 1


async def test_after_a_block_there_is_no_replying(posts: Posts, parent: int, blocks: set[frozenset[int]]) -> None:
    blocks.add(frozenset({AUTHOR, REPLIER}))
    with pytest.raises(NotFound) as refusal:
        await posts.create(reply_to(parent), "")
    assert refusal.value.reason == "POST_NOT_FOUND"


async def test_an_author_who_is_gone_is_named_before_what_is_replied_to(
    posts: Posts, standings: dict[int, Standing | None]
) -> None:
    standings[REPLIER] = None
    with pytest.raises(NotFound) as refusal:
        await posts.create(reply_to(5), "")
    assert (refusal.value.reason, refusal.value.metadata["field"]) == ("USER_NOT_FOUND", "author_id")


async def test_a_retry_finds_its_reply_whatever_became_of_what_it_replies_to(
    posts: Posts, engagements: Engagements, parent: int, blocks: set[frozenset[int]]
) -> None:
    first = (await posts.create(reply_to(parent), "k")).post
    blocks.add(frozenset({AUTHOR, REPLIER}))
    assert await posts.create(reply_to(parent), "k") == (first, True)
    assert await replies_of(engagements, parent) == 1
    await posts.delete(AUTHOR, parent)
    assert await posts.create(reply_to(parent), "k") == (first, True)


async def test_a_key_does_not_stand_for_the_same_text_in_reply_to_another_post(posts: Posts, parent: int) -> None:
    await posts.create(reply_to(parent), "k")
    for other in (reply_to(0), reply_to((await posts.create(Draft(AUTHOR, "text", ()), "")).post.id)):
        with pytest.raises(FailedPrecondition) as refusal:
            await posts.create(other, "k")
        assert refusal.value.reason == "IDEMPOTENCY_KEY_REUSED"
