"""Edits in a real PostgreSQL: of one's own posts alone, told once, and never out of their time."""

import asyncio
import time
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import InvalidArgument, NotFound, PermissionDenied
from feedkit.invalidation import Invalidation
from feedkit.redis import Redis
from post_service.audience import Audience
from post_service.authors import Authors, Standing
from post_service.cache_store import CacheStore
from post_service.post import Draft, Edit, Medium, Post
from post_service.posts import Posts
from post_service.store import PostStore

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

AUTHOR = 7
PICTURE = Medium("https://media.example/1.webp", "image/webp", 640, 480, "a cat")
OTHER = Edit("other", None)


@pytest.fixture
async def post(posts: Posts) -> Post:
    """A post with text and a picture."""
    return (await posts.create(Draft(AUTHOR, "text", (PICTURE,)), "")).post


async def kinds(sql: Sql) -> list[int]:
    """What has been told of, in its order."""
    rows = await sql.fetch("SELECT payload FROM outbox ORDER BY id")
    return [events_pb2.PostEvent.FromString(row["payload"]).kind for row in rows]


@pytest.mark.parametrize(
    ("edit", "content", "media"),
    [
        (Edit("Grüße 🙂'", None), "Grüße 🙂'", (PICTURE,)),
        (Edit(None, (PICTURE._replace(alt_text='"☀"'), PICTURE)), "text", (PICTURE._replace(alt_text='"☀"'), PICTURE)),
        (Edit(None, ()), "text", ()),
        (Edit("", None), "", (PICTURE,)),
        (Edit("both", ()), "both", ()),
    ],
)
async def test_an_edit_changes_what_it_names(
    *, posts: Posts, post: Post, edit: Edit, content: str, media: tuple[Medium, ...]
) -> None:
    edited = await posts.edit(AUTHOR, post.id, edit)
    assert edited == Post(post.id, AUTHOR, content, media, edited.edited_at_ms)
    assert await posts.get(post.id) == edited


async def test_an_edit_is_told_once_keyed_by_the_author(posts: Posts, post: Post, sql: Sql) -> None:
    await posts.edit(AUTHOR, post.id, OTHER)
    await posts.edit(AUTHOR, post.id, OTHER)
    told = events_pb2.PostEvent(post_id=post.id, author_id=AUTHOR, kind=events_pb2.POST_EVENT_KIND_EDITED)
    rows = await sql.fetch("SELECT topic, key, payload FROM outbox ORDER BY id OFFSET 1")
    assert rows == [("feed.post.events.v1", str(AUTHOR), told.SerializeToString())]


async def test_an_edit_without_its_event_is_none(posts: Posts, post: Post, sql: Sql) -> None:
    await sql.execute("ALTER TABLE outbox ADD CHECK (false) NOT VALID")
    with pytest.raises(Exception, match="outbox"):
        await posts.edit(AUTHOR, post.id, OTHER)
    assert await posts.get(post.id) == post


@pytest.mark.parametrize("edit", [Edit("text", None), Edit(None, (PICTURE,)), Edit("text", (PICTURE,))])
async def test_what_changes_nothing_is_no_edit(posts: Posts, post: Post, sql: Sql, edit: Edit) -> None:
    assert await posts.edit(AUTHOR, post.id, edit) == post
    edited = await posts.edit(AUTHOR, post.id, OTHER)
    assert await posts.edit(AUTHOR, post.id, OTHER) == edited
    assert await kinds(sql) == [events_pb2.POST_EVENT_KIND_CREATED, events_pb2.POST_EVENT_KIND_EDITED]


async def test_the_time_of_an_edit_is_that_of_the_databases_clock(posts: Posts, post: Post, sql: Sql) -> None:
    clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    before_ms = await sql.fetchval(clock)
    edited = await posts.edit(AUTHOR, post.id, OTHER)
    assert before_ms <= edited.edited_at_ms <= await sql.fetchval(clock) + 1


class FarAhead:
    """Ids of a process whose clock is an hour ahead."""

    async def next_id(self) -> int:
        return (time.time_ns() // 1_000_000 - 1_704_067_200_000 + 3_600_000) << 22


async def test_no_edit_is_earlier_than_its_post(
    store: PostStore, redis_client: Redis, authors: Authors, audience: Audience
) -> None:
    ahead = Posts(store, CacheStore(Invalidation(redis_client), own_length=50), FarAhead(), authors, audience)
    post = (await ahead.create(Draft(AUTHOR, "text", ()), "")).post
    assert (await ahead.edit(AUTHOR, post.id, OTHER)).edited_at_ms == post.created_at_ms


async def test_no_edit_is_earlier_than_the_one_before(posts: Posts, post: Post, sql: Sql) -> None:
    await sql.execute("UPDATE posts SET edited_at = now() + interval '1 hour' WHERE id = $1", post.id)
    before = await posts.get(post.id)
    assert (await posts.edit(AUTHOR, post.id, OTHER)).edited_at_ms == before.edited_at_ms


async def test_edits_at_once_come_one_after_another(posts: Posts, post: Post, sql: Sql) -> None:
    """One of the text and one of the media: neither undoes the other."""
    await asyncio.gather(
        posts.edit(AUTHOR, post.id, Edit("other", None)),
        posts.edit(AUTHOR, post.id, Edit(None, ())),
        *(posts.edit(AUTHOR, post.id, Edit("other", None)) for _ in range(4)),
    )
    assert (await posts.get(post.id))[2:4] == ("other", ())
    assert len(await kinds(sql)) == 3


async def test_an_edit_that_leaves_nothing_to_see_is_refused(posts: Posts, post: Post) -> None:
    with pytest.raises(InvalidArgument):
        await posts.edit(AUTHOR, post.id, Edit(" ", ()))
    assert await posts.get(post.id) == post


async def test_nobody_edits_the_post_of_another(posts: Posts, post: Post) -> None:
    with pytest.raises(PermissionDenied) as refusal:
        await posts.edit(8, post.id, OTHER)
    assert (refusal.value.reason, refusal.value.metadata) == ("NOT_THE_AUTHOR", {"post_id": str(post.id)})
    assert await posts.get(post.id) == post


@pytest.mark.parametrize("actor_id", [AUTHOR, 8])
async def test_a_deleted_post_is_edited_by_nobody(posts: Posts, post: Post, sql: Sql, actor_id: int) -> None:
    await posts.delete(AUTHOR, post.id)
    with pytest.raises(NotFound):
        await posts.edit(actor_id, post.id, OTHER)
    assert await sql.fetchval("SELECT content FROM posts") == "text"


async def test_a_post_that_never_was_cannot_be_edited(posts: Posts) -> None:
    with pytest.raises(NotFound) as refusal:
        await posts.edit(AUTHOR, 2**63 - 1, OTHER)
    assert refusal.value.reason == "POST_NOT_FOUND"


@pytest.mark.parametrize(("standing", "reason"), [(Standing.SUSPENDED, "ACCOUNT_SUSPENDED"), (None, "USER_NOT_FOUND")])
async def test_whoever_is_suspended_or_gone_neither_writes_nor_edits(
    *, posts: Posts, post: Post, standings: dict[int, Standing | None], standing: Standing | None, reason: str
) -> None:
    standings[AUTHOR] = standing
    with pytest.raises((PermissionDenied, NotFound)) as refusal:
        await posts.edit(AUTHOR, post.id, OTHER)
    assert refusal.value.reason == reason
    with pytest.raises((PermissionDenied, NotFound)) as refusal:
        await posts.create(Draft(AUTHOR, "text", ()), "")
    assert refusal.value.reason == reason
    assert await posts.get(post.id) == post


async def test_whoever_is_suspended_may_delete(posts: Posts, post: Post, standings: dict[int, Standing | None]) -> None:
    standings[AUTHOR] = Standing.SUSPENDED
    await posts.delete(AUTHOR, post.id)
    assert await posts.batch([post.id]) == []


async def test_a_repeated_create_answers_what_was_first_written(posts: Posts) -> None:
    draft = Draft(AUTHOR, "text", ())
    first = await posts.create(draft, "k")
    await posts.edit(AUTHOR, first.post.id, OTHER)
    assert await posts.create(draft, "k") == (first.post, True)
