"""The service as a process, asked by gRPC: what it answers, what it survives, and how it ends."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import operators
import pytest
from devmesh.mesh import Mesh
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit.errors import FailedPrecondition, InvalidArgument, NotFound, PermissionDenied, Unavailable
from google.protobuf.field_mask_pb2 import FieldMask

pytestmark = pytest.mark.integration

NOBODY = 2**62
Answer = TypeVar("Answer")


def draft(author_id: int, content: str = "text", key: str = "") -> post_pb2.CreatePostRequest:
    return post_pb2.CreatePostRequest(author_id=author_id, content=content, idempotency_key=key)


async def eventually(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Try until there is an answer."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await attempt()
            except Unavailable:
                await asyncio.sleep(0.05)


async def test_a_post_is_created_and_read_back(post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int) -> None:
    media = [post_pb2.MediaReference(url="https://media.example/1", type="video/mp4", width=1, height=2, alt_text="a")]
    request = post_pb2.CreatePostRequest(author_id=author_id, content="Grüße", media=media)
    created = (await post.CreatePost(request)).post
    assert (created.author_id, created.content, list(created.media)) == (author_id, "Grüße", media)
    assert created.created_at_ms == (created.id >> 22) + 1_704_067_200_000
    assert (await post.GetPost(post_pb2.GetPostRequest(post_id=created.id))).post == created
    asked = post_pb2.BatchGetPostsRequest(post_ids=[5, created.id, created.id])
    assert list((await post.BatchGetPosts(asked)).posts) == [created]


async def test_an_unknown_author_cannot_post(post: "post_pb2_grpc.PostServiceAsyncStub") -> None:
    with pytest.raises(NotFound) as refusal:
        await post.CreatePost(draft(NOBODY))
    assert (refusal.value.reason, refusal.value.metadata["field"]) == ("USER_NOT_FOUND", "author_id")


async def test_blank_text_is_refused_with_the_field(post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        await post.CreatePost(draft(author_id, "\u2003\n"))
    assert [violation.field for violation in refusal.value.violations] == ["content"]


async def test_a_post_of_5000_characters_beyond_the_basic_plane_is_kept(
    post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    created = (await post.CreatePost(draft(author_id, "👍" * 5000))).post
    assert (await post.GetPost(post_pb2.GetPostRequest(post_id=created.id))).post.content == "👍" * 5000


async def test_ten_retries_at_once_make_one_post(post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int) -> None:
    answers = await asyncio.gather(*(post.CreatePost(draft(author_id, key="k")) for _ in range(10)))
    assert len({answer.post.id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1


async def test_a_key_that_was_used_for_another_post_is_refused(
    post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    await post.CreatePost(draft(author_id, key="k"))
    with pytest.raises(FailedPrecondition) as refusal:
        await post.CreatePost(draft(author_id, "other text", key="k"))
    assert refusal.value.reason == "IDEMPOTENCY_KEY_REUSED"


def edit(actor_id: int, post_id: int, *paths: str, content: str = "other") -> post_pb2.EditPostRequest:
    mask = FieldMask(paths=paths)
    return post_pb2.EditPostRequest(actor_id=actor_id, post_id=post_id, update_mask=mask, content=content)


async def test_an_edit_changes_what_its_mask_names_and_nothing_else(
    post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    media = [post_pb2.MediaReference(url="https://media.example/1", type="image", width=1, height=2, alt_text="a")]
    request = post_pb2.CreatePostRequest(author_id=author_id, content="text", media=media)
    created = (await post.CreatePost(request)).post
    edited = (await post.EditPost(edit(author_id, created.id, "content"))).post
    assert (edited.content, list(edited.media), edited.created_at_ms) == ("other", media, created.created_at_ms)
    assert edited.edited_at_ms >= edited.created_at_ms
    without = (await post.EditPost(edit(author_id, created.id, "media", "media", content="ignored"))).post
    assert (without.content, list(without.media)) == ("other", [])
    assert (await post.GetPost(post_pb2.GetPostRequest(post_id=created.id))).post == without


@pytest.mark.parametrize("paths", [[], [""], ["*"], ["content", "author_id"], ["media.url"], ["CONTENT"]])
async def test_a_mask_that_names_anything_else_or_nothing_is_refused(
    post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int, paths: list[str]
) -> None:
    created = (await post.CreatePost(draft(author_id))).post
    with pytest.raises(InvalidArgument) as refusal:
        await post.EditPost(edit(author_id, created.id, *paths))
    assert [violation.field for violation in refusal.value.violations] == ["update_mask"]
    assert (await post.GetPost(post_pb2.GetPostRequest(post_id=created.id))).post == created


async def test_an_unknown_actor_cannot_edit(post: "post_pb2_grpc.PostServiceAsyncStub") -> None:
    with pytest.raises(NotFound) as refusal:
        await post.EditPost(edit(NOBODY, 5, "content"))
    assert (refusal.value.reason, refusal.value.metadata["field"]) == ("USER_NOT_FOUND", "actor_id")


async def test_nothing_is_erased_of_somebody_who_is_there(
    post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    created = (await post.CreatePost(draft(author_id))).post
    with pytest.raises(FailedPrecondition) as refusal:
        await post.EraseAuthor(post_pb2.EraseAuthorRequest(author_id=author_id))
    assert refusal.value.reason == "USER_NOT_DELETED"
    assert (await post.GetPost(post_pb2.GetPostRequest(post_id=created.id))).post == created


async def test_whoever_is_suspended_cannot_post(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    await operators.suspend(mesh, author_id)
    with pytest.raises(PermissionDenied) as refusal:
        await post.CreatePost(draft(author_id))
    assert refusal.value.reason == "ACCOUNT_SUSPENDED"
    await operators.restore(mesh, author_id)
    assert (await post.CreatePost(draft(author_id))).post.id


async def test_what_somebody_wrote_who_is_deleted_is_erased(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    for number in range(3):
        await post.CreatePost(draft(author_id, key=f"key {number}"))
    await operators.delete(mesh, author_id)
    erased = await post.EraseAuthor(post_pb2.EraseAuthorRequest(author_id=author_id))
    assert (erased.erased_posts, erased.done) == (3, True)
    listed = await post.ListAuthorPostIds(post_pb2.ListAuthorPostIdsRequest(author_id=author_id))
    assert list(listed.post_ids) == []


async def test_of_nobody_nothing_is_left(post: "post_pb2_grpc.PostServiceAsyncStub") -> None:
    erased = await post.EraseAuthor(post_pb2.EraseAuthorRequest(author_id=NOBODY))
    assert (erased.erased_posts, erased.done) == (0, True)


async def test_lists_end_where_a_deleted_post_would_be(
    post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    ids = [(await post.CreatePost(draft(author_id))).post.id for _ in range(3)]
    await post.DeletePost(post_pb2.DeletePostRequest(actor_id=author_id, post_id=ids[0]))
    page = await post.ListAuthorPostIds(post_pb2.ListAuthorPostIdsRequest(author_id=author_id, page_size=2))
    assert (list(page.post_ids), page.next_page_token) == ([ids[2], ids[1]], "")
    asked = post_pb2.ListRecentByAuthorsRequest(author_ids=[author_id, NOBODY], limit=2)
    recent = await post.ListRecentByAuthors(asked)
    assert (list(recent.post_ids), list(recent.author_ids)) == ([ids[2], ids[1]], [author_id] * 2)
    assert recent.complete_to_post_id == ids[1]


async def test_while_graph_is_away_known_authors_go_on_posting_and_others_get_a_retryable_answer(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    await post.CreatePost(draft(author_id))
    mesh.kill("graph")
    try:
        assert (await post.CreatePost(draft(author_id))).post.id
        with pytest.raises(Unavailable) as refusal:
            await post.CreatePost(draft(NOBODY))
    finally:
        await asyncio.to_thread(mesh.restart, "graph")
    assert refusal.value.metadata == {"dependency": "graph"}


async def test_while_postgresql_is_away_answers_are_retryable_and_then_all_goes_on(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    created = (await post.CreatePost(draft(author_id))).post
    await asyncio.to_thread(mesh.terminate, "postgres")
    try:
        with pytest.raises(Unavailable) as refusal:
            await post.CreatePost(draft(author_id))
    finally:
        await asyncio.to_thread(mesh.restart, "postgres")
    assert refusal.value.metadata == {"dependency": "postgres"}
    assert (await eventually(lambda: post.GetPost(post_pb2.GetPostRequest(post_id=created.id)))).post == created
    assert (await eventually(lambda: post.CreatePost(draft(author_id)))).post.id > created.id


async def test_while_redis_is_away_posts_are_written_and_deleted_quickly(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    await post.CreatePost(draft(author_id))
    mesh.kill("redis")
    try:
        for _ in range(3):
            async with asyncio.timeout(2):
                created = (await post.CreatePost(draft(author_id))).post
                await post.DeletePost(post_pb2.DeletePostRequest(actor_id=author_id, post_id=created.id))
            with pytest.raises(NotFound):
                await post.GetPost(post_pb2.GetPostRequest(post_id=created.id))
    finally:
        await asyncio.to_thread(mesh.restart, "redis")


async def test_a_process_that_is_killed_and_started_again_makes_no_id_twice(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int
) -> None:
    before = (await post.CreatePost(draft(author_id))).post.id
    mesh.kill("post")
    await asyncio.to_thread(mesh.restart, "post")
    assert (await eventually(lambda: post.CreatePost(draft(author_id)))).post.id > before


async def test_an_orderly_stop_releases_the_worker_number_and_exits_0(mesh: Mesh) -> None:
    held = "SELECT count(*) FROM id_workers WHERE holder IS NOT NULL AND expires_at > now()"
    connection = await asyncpg.connect(mesh.addresses.postgres["post"])
    try:
        before = await connection.fetchval(held)
        assert await asyncio.to_thread(mesh.terminate, "post") == 0
        assert await connection.fetchval(held) == before - 1
    finally:
        await connection.close()
        await asyncio.to_thread(mesh.restart, "post")


def test_a_setting_that_is_missing_is_one_clear_line() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FEED_")}
    ended = subprocess.run(
        [sys.executable, "-m", "post_service"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
    assert "FEED_POSTGRES_DSN" in ended.stderr
