"""Engagement as other services ask for it by gRPC, with graph beside."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import asyncpg
import operators
import pytest
from devmesh.mesh import Mesh
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import channel
from feedkit.errors import InvalidArgument, NotFound, PermissionDenied, Unavailable
from google.protobuf.field_mask_pb2 import FieldMask

pytestmark = pytest.mark.integration

LIKE, REPOST = post_pb2.ENGAGEMENT_LIKE, post_pb2.ENGAGEMENT_REPOST
NOBODY = 2**62
LEFT = """
SELECT EXISTS (SELECT FROM impressions WHERE viewer_id = $1) OR EXISTS (SELECT FROM feedback WHERE actor_id = $1)
    OR EXISTS (SELECT FROM engagements WHERE actor_id = $2)
"""
"""Whether anything is left of what one saw and had against posts, and another one liked."""


@pytest.fixture
async def graph(mesh: Mesh) -> "AsyncGenerator[graph_pb2_grpc.GraphServiceAsyncStub]":
    service = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
    async with channel.connect(mesh.addresses.grpc["graph"], service, "graph") as opened:
        yield graph_pb2_grpc.GraphServiceStub(opened)


@pytest.fixture
async def actor_id(graph: "graph_pb2_grpc.GraphServiceAsyncStub") -> int:
    """Somebody else who exists."""
    return (await graph.CreateUser(graph_pb2.CreateUserRequest(name="somebody else"))).user.id


@pytest.fixture
async def post_id(post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int) -> int:
    request = post_pb2.CreatePostRequest(author_id=author_id, content="about #this and #That")
    return (await post.CreatePost(request)).post.id


def counts(likes: int = 0, reposts: int = 0, replies: int = 0) -> post_pb2.EngagementCounts:
    return post_pb2.EngagementCounts(likes=likes, reposts=reposts, replies=replies)


async def test_likes_reposts_and_replies_are_counted_and_taken_back(
    post: "post_pb2_grpc.PostServiceAsyncStub", actor_id: int, post_id: int
) -> None:
    like = post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE)
    assert await post.Engage(like) == post_pb2.EngageResponse(counts=counts(1), changed=True)
    assert await post.Engage(like) == post_pb2.EngageResponse(counts=counts(1), changed=False)
    await post.Engage(post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=REPOST))
    draft = post_pb2.CreatePostRequest(author_id=actor_id, content="reply", reply_to_post_id=post_id)
    reply = (await post.CreatePost(draft)).post
    asked = post_pb2.BatchGetCountsRequest(post_ids=[reply.id, NOBODY, post_id, reply.id])
    assert list((await post.BatchGetCounts(asked)).posts) == [
        post_pb2.PostCounts(post_id=reply.id, counts=counts()),
        post_pb2.PostCounts(post_id=post_id, counts=counts(1, 1, 1)),
    ]
    unlike = post_pb2.DisengageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE)
    assert await post.Disengage(unlike) == post_pb2.DisengageResponse(counts=counts(0, 1, 1), changed=True)


async def test_a_reply_says_to_what_wherever_it_is_returned(
    post: "post_pb2_grpc.PostServiceAsyncStub", actor_id: int, post_id: int
) -> None:
    draft = post_pb2.CreatePostRequest(author_id=actor_id, content="re", reply_to_post_id=post_id, idempotency_key="k")
    reply = (await post.CreatePost(draft)).post
    assert reply.reply_to_post_id == post_id
    assert (await post.CreatePost(draft)).post == reply
    assert (await post.GetPost(post_pb2.GetPostRequest(post_id=reply.id))).post == reply
    assert (await post.BatchGetPosts(post_pb2.BatchGetPostsRequest(post_ids=[reply.id]))).posts[0] == reply
    mask = FieldMask(paths=["content"])
    edit = post_pb2.EditPostRequest(actor_id=actor_id, post_id=reply.id, update_mask=mask, content="other")
    assert (await post.EditPost(edit)).post.reply_to_post_id == post_id


async def test_an_edit_answers_the_counts(
    post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int, actor_id: int, post_id: int
) -> None:
    await post.Engage(post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE))
    mask = FieldMask(paths=["content"])
    edit = post_pb2.EditPostRequest(actor_id=author_id, post_id=post_id, update_mask=mask, content="other")
    assert (await post.EditPost(edit)).counts == counts(1)


async def test_traits_of_posts_that_stand_are_told(
    post: "post_pb2_grpc.PostServiceAsyncStub", actor_id: int, post_id: int
) -> None:
    medium = post_pb2.MediaReference(url="https://media.example/1", type="image")
    draft = post_pb2.CreatePostRequest(author_id=actor_id, media=[medium], reply_to_post_id=post_id)
    reply = (await post.CreatePost(draft)).post.id
    asked = post_pb2.BatchGetTraitsRequest(post_ids=[post_id, NOBODY, reply])
    tagged, with_media = (await post.BatchGetTraits(asked)).posts
    assert (tagged.post_id, tagged.has_media, tagged.is_reply, len(tagged.topics)) == (post_id, False, False, 2)
    assert with_media == post_pb2.PostTraits(post_id=reply, has_media=True, is_reply=True)


async def test_feedback_and_impressions_are_recorded_once(
    post: "post_pb2_grpc.PostServiceAsyncStub", actor_id: int, post_id: int
) -> None:
    hide = post_pb2.GiveFeedbackRequest(actor_id=actor_id, post_id=post_id, feedback=post_pb2.FEEDBACK_HIDE)
    assert [(await post.GiveFeedback(hide)).changed for _ in range(2)] == [True, False]
    seen = [
        post_pb2.Impression(post_id=post_id, position=3, dwell_ms=1500, seen_in=seen_in)
        for seen_in in (post_pb2.SEEN_IN_LATEST, post_pb2.SEEN_IN_RANKED)
    ]
    told = post_pb2.RecordImpressionsRequest(viewer_id=actor_id, impressions=seen)
    assert [(await post.RecordImpressions(told)).recorded for _ in range(2)] == [2, 0]


async def test_after_a_block_by_either_there_is_no_such_post(
    post: "post_pb2_grpc.PostServiceAsyncStub",
    graph: "graph_pb2_grpc.GraphServiceAsyncStub",
    author_id: int,
    actor_id: int,
    post_id: int,
) -> None:
    like = post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE)
    reply = post_pb2.CreatePostRequest(author_id=actor_id, content="re", reply_to_post_id=post_id)
    for blocker_id, blocked_id in ((author_id, actor_id), (actor_id, author_id)):
        await graph.Block(graph_pb2.BlockRequest(actor_id=blocker_id, blocked_id=blocked_id))
        for call in (post.Engage(like), post.CreatePost(reply)):
            with pytest.raises(NotFound) as refusal:
                await call
            assert refusal.value.reason == "POST_NOT_FOUND"
        await graph.Unblock(graph_pb2.UnblockRequest(actor_id=blocker_id, blocked_id=blocked_id))
    assert (await post.Engage(like)).changed


async def test_a_suspended_actor_likes_nothing_but_takes_likes_back(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", actor_id: int, post_id: int
) -> None:
    await operators.suspend(mesh, actor_id)
    with pytest.raises(PermissionDenied) as refusal:
        await post.Engage(post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE))
    assert refusal.value.reason == "ACCOUNT_SUSPENDED"
    unlike = post_pb2.DisengageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE)
    assert not (await post.Disengage(unlike)).changed


async def test_what_a_deleted_user_did_is_erased(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", actor_id: int, post_id: int
) -> None:
    await post.Engage(post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE))
    await operators.delete(mesh, actor_id)
    assert (await post.EraseAuthor(post_pb2.EraseAuthorRequest(author_id=actor_id))).done
    asked = post_pb2.BatchGetCountsRequest(post_ids=[post_id])
    assert (await post.BatchGetCounts(asked)).posts[0].counts == counts()


async def test_what_is_too_old_goes_and_deleted_users_are_erased_once_more_by_themselves(
    mesh: Mesh, actor_id: int, post_id: int
) -> None:
    old = datetime.now(UTC) - timedelta(days=32)
    connection = await asyncpg.connect(mesh.addresses.postgres["post"])
    try:
        insert = "INSERT INTO impressions VALUES ($1, $2, $3, 0, 0, $4, 1)"
        await connection.execute(insert, actor_id, post_id, old, old.date())
        await connection.execute("INSERT INTO feedback VALUES ($1, $2, $3, 1)", post_id, actor_id, old)
        await connection.execute("INSERT INTO engagements VALUES ($1, $2, $3, 1)", post_id, NOBODY, old)
        await connection.execute("INSERT INTO erased_authors VALUES ($1, $2)", NOBODY, old)
        async with asyncio.timeout(20):
            # PostgreSQL tells nobody of a row that is gone.
            while await connection.fetchval(LEFT, actor_id, NOBODY):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await connection.close()


async def test_nobody_does_anything(post: "post_pb2_grpc.PostServiceAsyncStub", post_id: int) -> None:
    seen = post_pb2.Impression(post_id=post_id, seen_in=post_pb2.SEEN_IN_LATEST)
    for call in (
        post.Engage(post_pb2.EngageRequest(actor_id=NOBODY, post_id=post_id, engagement=LIKE)),
        post.Disengage(post_pb2.DisengageRequest(actor_id=NOBODY, post_id=post_id, engagement=LIKE)),
        post.GiveFeedback(
            post_pb2.GiveFeedbackRequest(actor_id=NOBODY, post_id=post_id, feedback=post_pb2.FEEDBACK_HIDE)
        ),
        post.RecordImpressions(post_pb2.RecordImpressionsRequest(viewer_id=NOBODY, impressions=[seen])),
    ):
        with pytest.raises(NotFound) as refusal:
            await call
        assert refusal.value.reason == "USER_NOT_FOUND"


async def test_what_is_not_in_the_contract_is_refused_by_name(
    post: "post_pb2_grpc.PostServiceAsyncStub", actor_id: int, post_id: int
) -> None:
    unknown = post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id)
    with pytest.raises(InvalidArgument) as refusal:
        await post.Engage(unknown)
    assert [violation.field for violation in refusal.value.violations] == ["engagement"]


async def test_while_graph_is_away_a_known_actor_likes_their_own_post_and_another_waits(
    mesh: Mesh, post: "post_pb2_grpc.PostServiceAsyncStub", author_id: int, actor_id: int, post_id: int
) -> None:
    unlike = post_pb2.DisengageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE)
    await post.Disengage(unlike)
    mesh.kill("graph")
    try:
        own = await post.Engage(post_pb2.EngageRequest(actor_id=author_id, post_id=post_id, engagement=LIKE))
        with pytest.raises(Unavailable) as refusal:
            await post.Engage(post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=LIKE))
        assert not (await post.Disengage(unlike)).changed
    finally:
        await asyncio.to_thread(mesh.restart, "graph")
    assert own.counts == counts(1)
    assert refusal.value.metadata == {"dependency": "graph"}
