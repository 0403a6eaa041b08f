"""Posts in a real PostgreSQL: written with their events or not at all, read back whole, deleted by their author alone."""

import time
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.cursor import Position
from feedkit.errors import InvalidArgument, NotFound, PermissionDenied
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from post_service.post import Draft, Medium, Post
from post_service.posts import Posts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

CREATED, DELETED = events_pb2.POST_EVENT_KIND_CREATED, events_pb2.POST_EVENT_KIND_DELETED
PICTURE = Medium("https://media.example/1.webp", "image/webp", 640, 480, 'ein "Bild" \\ ☀')


async def write(posts: Posts, author_id: int, content: str = "text") -> Post:
    return (await posts.create(Draft(author_id, content, ()), "")).post


async def events(sql: Sql) -> list[tuple[str, str, str, int, int, int]]:
    rows = await sql.fetch("SELECT topic, key, type, payload FROM outbox ORDER BY id")
    parsed = [events_pb2.PostEvent.FromString(row["payload"]) for row in rows]
    return [
        (row["topic"], row["key"], row["type"], event.post_id, event.author_id, event.kind)
        for row, event in zip(rows, parsed, strict=True)
    ]


async def test_a_post_is_read_back_as_it_was_written(posts: Posts) -> None:
    draft = Draft(7, "Grüße\n\t👩‍👧 \u0301'; DROP TABLE posts", (PICTURE, PICTURE._replace(alt_text="")))
    created = await posts.create(draft, "")
    assert await posts.get(created.post.id) == created.post
    assert (*created.post[1:4], created.post.reply_to) == draft


async def test_the_creation_time_is_the_millisecond_in_the_id(posts: Posts) -> None:
    before_ms = time.time_ns() // 1_000_000
    post = await write(posts, 7)
    assert before_ms <= post.created_at_ms <= time.time_ns() // 1_000_000


async def test_a_blank_draft_writes_nothing(posts: Posts, sql: Sql) -> None:
    with pytest.raises(InvalidArgument):
        await posts.create(Draft(7, " \u2003", ()), "")
    assert await sql.fetchval("SELECT count(*) FROM posts") == 0


async def test_each_change_is_told_once_keyed_by_the_author(posts: Posts, sql: Sql) -> None:
    post = await write(posts, 7)
    await posts.delete(7, post.id)
    await posts.delete(7, post.id)
    told = ("feed.post.events.v1", "7", "feed.events.v1.PostEvent", post.id, 7)
    assert await events(sql) == [(*told, CREATED), (*told, DELETED)]


async def test_a_post_without_its_event_is_not_written(posts: Posts, sql: Sql) -> None:
    await sql.execute("ALTER TABLE outbox ADD CHECK (false)")
    with pytest.raises(Exception, match="outbox"):
        await write(posts, 7)
    assert await sql.fetchval("SELECT count(*) FROM posts") == 0


async def test_an_event_carries_the_trace_of_its_request(posts: Posts, sql: Sql) -> None:
    span = TracerProvider().get_tracer("test").start_span("request")
    with trace.use_span(span):
        await write(posts, 7)
    traced = await sql.fetchval("SELECT headers->>'traceparent' FROM outbox")
    assert traced.split("-")[1] == f"{span.get_span_context().trace_id:032x}"


async def test_a_batch_answers_each_post_once_in_the_order_asked_without_deleted_and_unknown_ones(
    posts: Posts,
) -> None:
    one, two, three = [await write(posts, author_id) for author_id in (7, 8, 9)]
    await posts.delete(8, two.id)
    asked = [three.id, 5, two.id, one.id, three.id]
    assert [post.id for post in await posts.batch(asked)] == [three.id, one.id]


async def test_an_empty_batch_is_empty(posts: Posts) -> None:
    assert await posts.batch([]) == []


async def test_a_deleted_post_is_not_found(posts: Posts) -> None:
    post = await write(posts, 7)
    await posts.delete(7, post.id)
    with pytest.raises(NotFound):
        await posts.get(post.id)


async def test_nobody_deletes_the_post_of_another(posts: Posts) -> None:
    post = await write(posts, 7)
    with pytest.raises(PermissionDenied) as refusal:
        await posts.delete(8, post.id)
    assert (refusal.value.reason, refusal.value.metadata) == ("NOT_THE_AUTHOR", {"post_id": str(post.id)})
    assert await posts.get(post.id) == post


async def test_to_others_a_deleted_post_is_not_there(posts: Posts) -> None:
    post = await write(posts, 7)
    await posts.delete(7, post.id)
    with pytest.raises(NotFound):
        await posts.delete(8, post.id)


async def test_a_post_that_never_was_cannot_be_deleted(posts: Posts) -> None:
    with pytest.raises(NotFound):
        await posts.delete(7, 2**63 - 1)


@pytest.mark.parametrize("size", [1, 7, 20, 50])
async def test_a_walk_over_an_authors_posts_meets_each_once_newest_first_and_then_ends(posts: Posts, size: int) -> None:
    written = [await write(posts, 7) for _ in range(53)]
    await write(posts, 8)
    await posts.delete(7, written[10].id)
    expected = [post.id for post in reversed(written) if post is not written[10]]
    walked: list[int] = []
    token, pages = "", 0
    while pages == 0 or token:
        page = await posts.of_author(7, size, token)
        walked += page.post_ids
        token, pages = page.next_page_token, pages + 1
    assert (walked, pages) == (expected, -(-len(expected) // size))


async def test_a_page_goes_on_from_a_post_that_is_gone(posts: Posts) -> None:
    written = [await write(posts, 7) for _ in range(5)]
    page = await posts.of_author(7, 2, "")
    for post_id in page.post_ids:
        await posts.delete(7, post_id)
    following = await posts.of_author(7, 2, page.next_page_token)
    assert following.post_ids == [written[2].id, written[1].id]


async def test_no_page_is_larger_than_50(posts: Posts) -> None:
    for _ in range(51):
        await write(posts, 7)
    assert len((await posts.of_author(7, 1_000_000, "")).post_ids) == 50


async def test_an_author_without_posts_has_an_empty_last_page(posts: Posts) -> None:
    assert await posts.of_author(7, 0, "") == ([], "")


async def test_a_token_that_is_no_cursor_is_refused(posts: Posts) -> None:
    with pytest.raises(InvalidArgument):
        await posts.of_author(7, 0, "1:2:3")


async def test_recent_posts_are_complete_down_to_the_last_one_of_a_full_answer(posts: Posts) -> None:
    written = [await write(posts, author_id) for author_id in (1, 2, 3, 1, 2)]
    recent = await posts.recent([2, 1, 2], 0, 2)
    assert recent == ([written[4].id, written[3].id], [2, 1], written[3].id)


async def test_recent_posts_go_back_to_the_beginning_where_the_answer_is_not_full(posts: Posts) -> None:
    written = [await write(posts, author_id) for author_id in (1, 2, 3)]
    recent = await posts.recent([1, 2], 0, 3)
    assert recent == ([written[1].id, written[0].id], [2, 1], 0)


async def test_recent_posts_of_nobody_are_none(posts: Posts) -> None:
    await write(posts, 1)
    assert await posts.recent([], 0, 10) == ([], [], 0)
    assert await posts.recent([0, -5, 2**63 - 1], 0, 10) == ([], [], 0)


async def test_recent_posts_go_on_below_an_id(posts: Posts) -> None:
    written = [await write(posts, 1) for _ in range(4)]
    recent = await posts.recent([1], written[2].id, 10)
    assert recent.post_ids == [written[1].id, written[0].id]


async def test_the_cursor_of_a_page_names_its_last_post(posts: Posts) -> None:
    written = [await write(posts, 1) for _ in range(3)]
    assert (await posts.of_author(1, 2, "")).next_page_token == str(Position.of(written[1].id))
