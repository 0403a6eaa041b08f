"""What every service answers to bad input: a canonical code with ErrorInfo and the field named, never a fault of ours."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from devmesh.mesh import Mesh
from feed.fanout.v1 import fanout_pb2 as fanout
from feed.graph.v1 import accounts_pb2 as accounts
from feed.graph.v1 import graph_pb2 as graph
from feed.hydrate.v1 import hydrate_pb2 as hydrate
from feed.post.v1 import post_pb2 as post
from feed.timeline.v1 import timeline_pb2 as timeline
from feedkit import status
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

pytestmark = pytest.mark.integration

NOBODY = 2**62
MAX = 2**63 - 1
POST, GRAPH, ACCOUNTS, FANOUT, TIMELINE, HYDRATE = (
    "feed.post.v1.PostService",
    "feed.graph.v1.GraphService",
    "feed.graph.v1.AccountService",
    "feed.fanout.v1.FanoutService",
    "feed.timeline.v1.TimelineService",
    "feed.hydrate.v1.HydrateService",
)
JUNK_TOKENS = ("...", "abc", ":", "1:", ":1", "1:2:3", "-1:-1", "1:1 ", "١:١", "9" * 20 + ":1", "x" * 10_240)


def mask_of(paths: list[str]) -> FieldMask:
    """What to change."""
    return FieldMask(paths=paths)


CONTENT = mask_of(["content"])

Case = tuple[str, str, Message, str, str, str | None]
"""Service, method, request, code, reason, field."""

INVALID: list[Case] = [
    (service, method, request, "INVALID_ARGUMENT", "INVALID_FIELD", field)
    for service, method, request, field in [
        (POST, "CreatePost", post.CreatePostRequest(content="x"), "author_id"),
        (POST, "CreatePost", post.CreatePostRequest(author_id=-1, content="x"), "author_id"),
        (POST, "CreatePost", post.CreatePostRequest(author_id=1, content="x" * 5001), "content"),
        (POST, "CreatePost", post.CreatePostRequest(author_id=1, content="a\0b"), "content"),
        (POST, "CreatePost", post.CreatePostRequest(author_id=1, content=" \n\u2003"), "content"),
        (POST, "CreatePost", post.CreatePostRequest(author_id=1), "content"),
        (
            POST,
            "CreatePost",
            post.CreatePostRequest(author_id=1, content="x", media=[post.MediaReference(url="ftp://a", type="image")]),
            "media[0].url",
        ),
        (
            POST,
            "CreatePost",
            post.CreatePostRequest(
                author_id=1, content="x", media=[post.MediaReference(url="https://a/b", type="image", width=-1)]
            ),
            "media[0].width",
        ),
        (
            POST,
            "CreatePost",
            post.CreatePostRequest(
                author_id=1, content="x", media=[post.MediaReference(url="https://a/b", type="image")] * 11
            ),
            "media",
        ),
        (POST, "CreatePost", post.CreatePostRequest(author_id=1, content="x", idempotency_key="é"), "idempotency_key"),
        (POST, "GetPost", post.GetPostRequest(), "post_id"),
        (POST, "BatchGetPosts", post.BatchGetPostsRequest(post_ids=range(1, 102)), "post_ids"),
        (POST, "BatchGetPosts", post.BatchGetPostsRequest(post_ids=[1, 0]), "post_ids[1]"),
        (POST, "ListAuthorPostIds", post.ListAuthorPostIdsRequest(author_id=1, page_size=-1), "page_size"),
        (POST, "ListRecentByAuthors", post.ListRecentByAuthorsRequest(author_ids=[1]), "limit"),
        (POST, "ListRecentByAuthors", post.ListRecentByAuthorsRequest(author_ids=[1], limit=1001), "limit"),
        (POST, "ListRecentByAuthors", post.ListRecentByAuthorsRequest(author_ids=range(5002), limit=1), "author_ids"),
        (POST, "DeletePost", post.DeletePostRequest(post_id=1), "actor_id"),
        (POST, "EditPost", post.EditPostRequest(post_id=1, update_mask=CONTENT, content="x"), "actor_id"),
        (POST, "EditPost", post.EditPostRequest(actor_id=1, update_mask=CONTENT, content="x"), "post_id"),
        (POST, "EditPost", post.EditPostRequest(actor_id=1, post_id=1, content="x"), "update_mask"),
        *(
            (
                POST,
                "EditPost",
                post.EditPostRequest(actor_id=1, post_id=1, update_mask=mask, content="x"),
                "update_mask",
            )
            for mask in map(mask_of, ([], [""], ["*"], ["author_id"], ["content", "id"], ["media.url"], ["Content"]))
        ),
        (
            POST,
            "EditPost",
            post.EditPostRequest(actor_id=1, post_id=1, update_mask=CONTENT, content="x" * 5001),
            "content",
        ),
        (POST, "EditPost", post.EditPostRequest(actor_id=1, post_id=1, update_mask=CONTENT, content="a\0b"), "content"),
        (
            POST,
            "EditPost",
            post.EditPostRequest(
                actor_id=1,
                post_id=1,
                update_mask=mask_of(["media"]),
                media=[post.MediaReference(url="ftp://a", type="image")],
            ),
            "media[0].url",
        ),
        (POST, "EraseAuthor", post.EraseAuthorRequest(), "author_id"),
        (GRAPH, "CreateUser", graph.CreateUserRequest(), "name"),
        (GRAPH, "CreateUser", graph.CreateUserRequest(name="x" * 101), "name"),
        (GRAPH, "CreateUser", graph.CreateUserRequest(name=" \u2003 "), "name"),
        (GRAPH, "CreateUser", graph.CreateUserRequest(name="a\0b"), "name"),
        (GRAPH, "GetUser", graph.GetUserRequest(user_id=-MAX), "user_id"),
        (GRAPH, "BatchGetUsers", graph.BatchGetUsersRequest(user_ids=range(1, 1002)), "user_ids"),
        (GRAPH, "BatchGetUsers", graph.BatchGetUsersRequest(user_ids=[1], view=7), "view"),  # pyright: ignore
        (GRAPH, "Follow", graph.FollowRequest(actor_id=1), "followee_id"),
        (GRAPH, "BatchFollow", graph.BatchFollowRequest(actor_id=1), "followee_ids"),
        (GRAPH, "BatchFollow", graph.BatchFollowRequest(actor_id=1, followee_ids=range(1, 1002)), "followee_ids"),
        (GRAPH, "ListFollowers", graph.ListFollowersRequest(user_id=1, page_size=-5), "page_size"),
        (GRAPH, "StreamFollowers", graph.StreamFollowersRequest(), "user_id"),
        (GRAPH, "BatchGetRelationships", graph.BatchGetRelationshipsRequest(user_ids=[1]), "viewer_id"),
        (GRAPH, "StreamActiveFollowers", graph.StreamActiveFollowersRequest(), "user_id"),
        (
            GRAPH,
            "StreamActiveFollowers",
            graph.StreamActiveFollowersRequest(user_id=1, active_days=-1),
            "active_days",
        ),
        (GRAPH, "ClassifyAuthors", graph.ClassifyAuthorsRequest(author_ids=range(1, 1002)), "author_ids"),
        (GRAPH, "ClassifyAuthors", graph.ClassifyAuthorsRequest(author_ids=[0]), "author_ids[0]"),
        (
            GRAPH,
            "ClassifyAuthors",
            graph.ClassifyAuthorsRequest(author_ids=[1], celebrity_threshold=-1),
            "celebrity_threshold",
        ),
        (GRAPH, "Block", graph.BlockRequest(actor_id=1), "blocked_id"),
        (GRAPH, "Block", graph.BlockRequest(blocked_id=1), "actor_id"),
        (GRAPH, "Unblock", graph.UnblockRequest(actor_id=1, blocked_id=-1), "blocked_id"),
        (GRAPH, "Mute", graph.MuteRequest(actor_id=1), "muted_id"),
        (GRAPH, "Unmute", graph.UnmuteRequest(actor_id=-MAX, muted_id=1), "actor_id"),
        (GRAPH, "ListBlocked", graph.ListBlockedRequest(), "user_id"),
        (GRAPH, "ListMuted", graph.ListMutedRequest(user_id=1, page_size=-1), "page_size"),
        (GRAPH, "GetHiddenAuthors", graph.GetHiddenAuthorsRequest(), "viewer_id"),
        (GRAPH, "EraseUser", graph.EraseUserRequest(user_id=-1), "user_id"),
        (GRAPH, "StreamActiveUsers", graph.StreamActiveUsersRequest(active_days=-1), "active_days"),
        (GRAPH, "ListShrunkAuthors", graph.ListShrunkAuthorsRequest(), "limit"),
        (GRAPH, "LeavePulledAuthors", graph.LeavePulledAuthorsRequest(author_id=1), "sequence"),
        (GRAPH, "ListPulledAuthors", graph.ListPulledAuthorsRequest(since_version=-1), "since_version"),
        (FANOUT, "Reconcile", fanout.ReconcileRequest(), "viewer_id"),
        (FANOUT, "Reconcile", fanout.ReconcileRequest(viewer_id=1, author_id=-1), "author_id"),
        (TIMELINE, "GetHomeTimeline", timeline.GetHomeTimelineRequest(), "viewer_id"),
        (TIMELINE, "GetHomeTimeline", timeline.GetHomeTimelineRequest(viewer_id=1, page_size=-1), "page_size"),
        (TIMELINE, "GetHomeTimeline", timeline.GetHomeTimelineRequest(viewer_id=1, view=9), "view"),  # pyright: ignore
        (HYDRATE, "HydratePosts", hydrate.HydratePostsRequest(post_ids=range(1, 10_001)), "post_ids"),
        (HYDRATE, "HydratePosts", hydrate.HydratePostsRequest(viewer_id=-1), "viewer_id"),
        (HYDRATE, "HydratePosts", hydrate.HydratePostsRequest(surface=9), "surface"),  # pyright: ignore
        (HYDRATE, "HydratePosts", hydrate.HydratePostsRequest(post_ids=[1, 2], author_ids=[1]), "author_ids"),
    ]
]
TOKENS: list[Case] = [
    (
        service,
        method,
        request,
        "INVALID_ARGUMENT",
        "INVALID_FIELD" if len(token) > 64 else "INVALID_PAGE_TOKEN",
        "page_token",
    )
    for token in JUNK_TOKENS
    for service, method, request in [
        (POST, "ListAuthorPostIds", post.ListAuthorPostIdsRequest(author_id=1, page_token=token)),
        (TIMELINE, "GetHomeTimeline", timeline.GetHomeTimelineRequest(viewer_id=1, page_token=token)),
        (GRAPH, "ListFollowers", graph.ListFollowersRequest(user_id=1, page_token=token)),
        (GRAPH, "ListFollowees", graph.ListFolloweesRequest(user_id=1, page_token=token)),
        (GRAPH, "ListBlocked", graph.ListBlockedRequest(user_id=1, page_token=token)),
        (GRAPH, "ListMuted", graph.ListMutedRequest(user_id=1, page_token=token)),
    ]
]
NOT_FOUND: list[Case] = [
    (POST, "GetPost", post.GetPostRequest(post_id=NOBODY), "NOT_FOUND", "POST_NOT_FOUND", None),
    (POST, "DeletePost", post.DeletePostRequest(actor_id=1, post_id=MAX), "NOT_FOUND", "POST_NOT_FOUND", None),
    (POST, "CreatePost", post.CreatePostRequest(author_id=NOBODY, content="x"), "NOT_FOUND", "USER_NOT_FOUND", None),
    (
        POST,
        "EditPost",
        post.EditPostRequest(actor_id=NOBODY, post_id=1, update_mask=CONTENT, content="x"),
        "NOT_FOUND",
        "USER_NOT_FOUND",
        None,
    ),
    (GRAPH, "GetUser", graph.GetUserRequest(user_id=MAX), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "Block", graph.BlockRequest(actor_id=NOBODY, blocked_id=1), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "Unblock", graph.UnblockRequest(actor_id=NOBODY, blocked_id=1), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "Mute", graph.MuteRequest(actor_id=NOBODY, muted_id=1), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "Unmute", graph.UnmuteRequest(actor_id=NOBODY, muted_id=1), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "ListBlocked", graph.ListBlockedRequest(user_id=NOBODY), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "ListMuted", graph.ListMutedRequest(user_id=NOBODY), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "Follow", graph.FollowRequest(actor_id=NOBODY, followee_id=1), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "Unfollow", graph.UnfollowRequest(actor_id=NOBODY, followee_id=1), "NOT_FOUND", "USER_NOT_FOUND", None),
    (
        GRAPH,
        "BatchFollow",
        graph.BatchFollowRequest(actor_id=NOBODY, followee_ids=[1]),
        "NOT_FOUND",
        "USER_NOT_FOUND",
        None,
    ),
    (GRAPH, "ListFollowers", graph.ListFollowersRequest(user_id=NOBODY), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "ListFollowees", graph.ListFolloweesRequest(user_id=NOBODY), "NOT_FOUND", "USER_NOT_FOUND", None),
    (
        GRAPH,
        "BatchGetRelationships",
        graph.BatchGetRelationshipsRequest(viewer_id=NOBODY, user_ids=[1]),
        "NOT_FOUND",
        "USER_NOT_FOUND",
        None,
    ),
    (GRAPH, "RecordActivity", graph.RecordActivityRequest(user_id=NOBODY), "NOT_FOUND", "USER_NOT_FOUND", None),
    (GRAPH, "GetViewerContext", graph.GetViewerContextRequest(viewer_id=NOBODY), "NOT_FOUND", "USER_NOT_FOUND", None),
    (
        TIMELINE,
        "GetHomeTimeline",
        timeline.GetHomeTimelineRequest(viewer_id=NOBODY),
        "NOT_FOUND",
        "USER_NOT_FOUND",
        None,
    ),
]


OPERATORS: list[Case] = [
    (ACCOUNTS, method, request, "PERMISSION_DENIED", "OPERATOR_REQUIRED", None)
    for method, request in [
        ("SuspendUser", accounts.SuspendUserRequest(user_id=1)),
        ("RestoreUser", accounts.RestoreUserRequest(user_id=1)),
        ("DeleteUser", accounts.DeleteUserRequest(user_id=1)),
    ]
]


@pytest.fixture
async def channels(mesh: Mesh) -> AsyncGenerator[dict[str, grpc.aio.Channel]]:
    """A plain channel to each service, by the service's full name."""
    targets = mesh.addresses.grpc
    open_channels = {
        service: grpc.aio.insecure_channel(targets[service.split(".")[1]])
        for service in (POST, GRAPH, ACCOUNTS, FANOUT, TIMELINE, HYDRATE)
    }
    yield open_channels
    for channel in open_channels.values():
        await channel.close()


async def call(channel: grpc.aio.Channel, service: str, method: str, body: bytes) -> grpc.aio.AioRpcError:
    """The error that a raw call ends with."""
    path = f"/{service}/{method}"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        if method.startswith("Stream"):
            stream = cast("Any", channel.unary_stream(path))(body, timeout=10)
            async for _ in stream:
                pass
        else:
            await channel.unary_unary(path)(body, timeout=10)
    return caught.value


def name(case: Case) -> str:
    """A case as the report shows it."""
    return f"{case[1]}-{case[5] or case[4]}"


@pytest.mark.parametrize("case", [*INVALID, *TOKENS, *NOT_FOUND, *OPERATORS], ids=name)
async def test_a_bad_request_is_refused_with_its_reason(channels: dict[str, grpc.aio.Channel], case: Case) -> None:
    service, method, request, code, reason, field = case
    error = await call(channels[service], service, method, request.SerializeToString())
    domain_error = status.from_rpc_error(error, service)
    assert error.code() is grpc.StatusCode[code], error
    assert domain_error.reason == reason, error
    assert field is None or field in [violation.field for violation in domain_error.violations]


@pytest.mark.parametrize(
    ("service", "method", "body"),
    [
        *(
            (service, method, b"\xff\xff\xff")
            for service, method in [
                (POST, "CreatePost"),
                (GRAPH, "CreateUser"),
                (FANOUT, "Reconcile"),
                (TIMELINE, "GetHomeTimeline"),
                (HYDRATE, "HydratePosts"),
            ]
        ),
        (POST, "CreatePost", b"\x08\x01\x12\x02\xc3\x28"),
        (GRAPH, "CreateUser", b"\x0a\x02\xc3\x28"),
        (TIMELINE, "GetHomeTimeline", b"\x08\x01\x1a\x02\xc3\x28"),
    ],
    ids=["post", "graph", "fanout", "timeline", "hydrate", "post-utf8", "graph-utf8", "timeline-utf8"],
)
async def test_bytes_that_are_no_message_are_the_callers_mistake(
    channels: dict[str, grpc.aio.Channel], service: str, method: str, body: bytes
) -> None:
    error = await call(channels[service], service, method, body)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, error


@pytest.mark.parametrize(
    ("service", "method", "request_message"),
    [
        (POST, "EraseAuthor", post.EraseAuthorRequest),
        (GRAPH, "EraseUser", graph.EraseUserRequest),
    ],
)
async def test_nothing_is_erased_of_a_user_who_is_there(
    channels: dict[str, grpc.aio.Channel], service: str, method: str, request_message: Callable[..., Message]
) -> None:
    create = cast("Any", channels[GRAPH].unary_unary(f"/{GRAPH}/CreateUser"))
    created = await create(graph.CreateUserRequest(name="Ada").SerializeToString(), timeout=10)
    user_id = graph.CreateUserResponse.FromString(created).user.id
    field = "author_id" if service is POST else "user_id"
    error = await call(channels[service], service, method, request_message(**{field: user_id}).SerializeToString())
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert status.from_rpc_error(error, service).reason == "USER_NOT_DELETED"


async def test_a_message_of_2_mib_is_refused_and_the_service_goes_on(
    channels: dict[str, grpc.aio.Channel],
) -> None:
    body = post.CreatePostRequest(author_id=1, content="x" * (2 * 1024 * 1024)).SerializeToString()
    error = await call(channels[POST], POST, "CreatePost", body)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    again = await call(channels[POST], POST, "GetPost", b"")
    assert again.code() is grpc.StatusCode.INVALID_ARGUMENT
