"""The service as a process, called as other services call it."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import grpc.aio
import pytest
from devmesh.backends.valkey import Valkey
from feed.graph.v1 import graph_pb2 as pb
from feed.graph.v1 import graph_pb2_grpc
from feedkit.errors import FailedPrecondition, InvalidArgument, NotFound

pytestmark = pytest.mark.integration

MakeUsers = Callable[[int], Awaitable[list[int]]]
MakeCrowd = Callable[[int], Awaitable[tuple[int, list[int]]]]
NOBODY = 2**63 - 1


async def call(stub: Any, method: str, request: Any) -> Any:
    return await getattr(stub, method)(request)


async def test_a_user_is_made_and_found(stub: Any):
    made = (await call(stub, "CreateUser", pb.CreateUserRequest(name="Ada"))).user
    found = (await call(stub, "GetUser", pb.GetUserRequest(user_id=made.id))).user
    assert (found.id, found.name, found.follower_count, found.following_count) == (made.id, "Ada", 0, 0)


async def test_follow_and_unfollow_tell_whether_something_changed(stub: Any, make_users: MakeUsers):
    a, b = await make_users(2)
    follow, unfollow = pb.FollowRequest(actor_id=a, followee_id=b), pb.UnfollowRequest(actor_id=a, followee_id=b)
    assert [(await call(stub, "Follow", follow)).created for _ in range(2)] == [True, False]
    assert [(await call(stub, "Unfollow", unfollow)).removed for _ in range(2)] == [True, False]


async def test_a_mass_follow_up_to_the_limit_tells_each_outcome(stub: Any, make_users: MakeUsers):
    a, *others = await make_users(53)
    request = pb.BatchFollowRequest(actor_id=a, followee_ids=[others[0], others[0], a, *others[1:]])
    results = (await call(stub, "BatchFollow", request)).results
    assert [result.followee_id for result in results] == [others[0], a, *others[1:]]
    assert (results[0].outcome, results[0].reason) == (pb.FOLLOW_OUTCOME_FOLLOWED, "")
    assert (results[1].outcome, results[1].reason) == (pb.FOLLOW_OUTCOME_REFUSED, "CANNOT_FOLLOW_SELF")
    assert (results[-1].outcome, results[-1].reason) == (pb.FOLLOW_OUTCOME_REFUSED, "FOLLOWING_LIMIT_REACHED")
    again = (await call(stub, "BatchFollow", request)).results
    assert again[0].outcome == pb.FOLLOW_OUTCOME_ALREADY


async def test_the_limit_is_told_with_the_error(stub: Any, make_users: MakeUsers):
    a, *others = await make_users(52)
    await call(stub, "BatchFollow", pb.BatchFollowRequest(actor_id=a, followee_ids=others[:50]))
    with pytest.raises(FailedPrecondition) as caught:
        await call(stub, "Follow", pb.FollowRequest(actor_id=a, followee_id=others[50]))
    assert (caught.value.reason, caught.value.metadata) == ("FOLLOWING_LIMIT_REACHED", {"limit": "50"})


async def test_pages_follow_one_another_by_their_tokens(stub: Any, make_users: MakeUsers):
    a, b, c, d = await make_users(4)
    await call(stub, "BatchFollow", pb.BatchFollowRequest(actor_id=a, followee_ids=[b, c, d]))
    first = await call(stub, "ListFollowees", pb.ListFolloweesRequest(user_id=a, page_size=2))
    token = first.next_page_token
    rest = await call(stub, "ListFollowees", pb.ListFolloweesRequest(user_id=a, page_size=2, page_token=token))
    assert ([u.id for u in first.users], [u.id for u in rest.users], rest.next_page_token) == ([d, c], [b], "")


async def test_basic_views_leave_the_counts_out(stub: Any, make_users: MakeUsers):
    a, b = await make_users(2)
    await call(stub, "Follow", pb.FollowRequest(actor_id=a, followee_id=b))
    views = (pb.USER_VIEW_BASIC, pb.USER_VIEW_FULL, pb.USER_VIEW_UNSPECIFIED)
    requests = [pb.BatchGetUsersRequest(user_ids=[b], view=view) for view in views]
    answers = [(await call(stub, "BatchGetUsers", request)).users[0].follower_count for request in requests]
    assert answers == [0, 1, 1]


async def test_relationships_and_context_agree_with_the_follows(stub: Any, make_users: MakeUsers):
    a, b, c = await make_users(3)
    await call(stub, "BatchFollow", pb.BatchFollowRequest(actor_id=a, followee_ids=[c, b]))
    await call(stub, "Follow", pb.FollowRequest(actor_id=c, followee_id=a))
    request = pb.BatchGetRelationshipsRequest(viewer_id=a, user_ids=[b, c])
    relationships = (await call(stub, "BatchGetRelationships", request)).relationships
    assert [(r.user_id, r.following, r.followed_by) for r in relationships] == [(b, True, False), (c, True, True)]
    context = await call(stub, "GetViewerContext", pb.GetViewerContextRequest(viewer_id=a))
    assert list(context.followee_ids) == [b, c]


async def test_tens_of_thousands_of_followers_are_streamed(stub: Any, make_crowd: MakeCrowd):
    celebrity, followers = await make_crowd(45_000)
    pages = [page async for page in stub.StreamFollowers(pb.StreamFollowersRequest(user_id=celebrity))]
    assert [len(page.follower_ids) for page in pages] == [10_000] * 4 + [5_000]
    assert sorted(user_id for page in pages for user_id in page.follower_ids) == followers


async def test_active_followers_are_streamed(stub: Any, make_crowd: MakeCrowd):
    author, followers = await make_crowd(3)
    for follower in followers[:2]:
        await call(stub, "RecordActivity", pb.RecordActivityRequest(user_id=follower))
    request = pb.StreamActiveFollowersRequest(user_id=author, active_days=30)
    pages = [page async for page in stub.StreamActiveFollowers(request)]
    assert sorted(follower for page in pages for follower in page.follower_ids) == followers[:2]


async def test_authors_are_classified_in_columns_and_those_who_are_pulled_are_listed(stub: Any, make_crowd: MakeCrowd):
    (large, _), (small, _) = await make_crowd(3), await make_crowd(2)
    before = (await call(stub, "ListPulledAuthors", pb.ListPulledAuthorsRequest())).version
    request = pb.ClassifyAuthorsRequest(author_ids=[small, large, small], celebrity_threshold=3)
    classified = await call(stub, "ClassifyAuthors", request)
    assert list(classified.author_ids) == [small, large]
    assert list(classified.pulled) == [False, True]
    assert list(classified.follower_counts) == [2, 3]
    entered = await call(stub, "ListPulledAuthors", pb.ListPulledAuthorsRequest(since_version=before))
    assert (entered.version, list(entered.entered_author_ids)) == (before + 1, [large])


async def test_an_author_leaves_the_index_by_the_sequence_that_was_listed(stub: Any, make_crowd: MakeCrowd):
    author, _ = await make_crowd(3)
    await call(stub, "ClassifyAuthors", pb.ClassifyAuthorsRequest(author_ids=[author], celebrity_threshold=3))
    known = (await call(stub, "ListPulledAuthors", pb.ListPulledAuthorsRequest())).version
    listed = (await call(stub, "ListShrunkAuthors", pb.ListShrunkAuthorsRequest(follower_count=4, limit=1000))).authors
    [shrunk] = [each for each in listed if each.author_id == author]
    assert (shrunk.follower_count, shrunk.sequence) == (3, 1)
    leave = pb.LeavePulledAuthorsRequest(author_id=author, sequence=shrunk.sequence)
    assert [(await call(stub, "LeavePulledAuthors", leave)).left for _ in range(2)] == [True, False]
    change = await call(stub, "ListPulledAuthors", pb.ListPulledAuthorsRequest(since_version=known))
    assert (change.version, list(change.entered_author_ids), list(change.left_author_ids)) == (known + 1, [], [author])


async def test_blocks_and_mutes_are_told_in_lists_relationships_and_hidden_authors(stub: Any, make_users: MakeUsers):
    a, b, c = await make_users(3)
    block, mute = pb.BlockRequest(actor_id=a, blocked_id=b), pb.MuteRequest(actor_id=a, muted_id=c)
    assert [(await call(stub, "Block", block)).created for _ in range(2)] == [True, False]
    assert [(await call(stub, "Mute", mute)).created for _ in range(2)] == [True, False]
    for method, request in (("ListBlocked", pb.ListBlockedRequest), ("ListMuted", pb.ListMutedRequest)):
        users = (await call(stub, method, request(user_id=a))).users
        assert [(user.id, user.name) for user in users] == [(b, "user 2") if method == "ListBlocked" else (c, "user 3")]
    request = pb.BatchGetRelationshipsRequest(viewer_id=a, user_ids=[b, c])
    assert list((await call(stub, "BatchGetRelationships", request)).relationships) == [
        pb.Relationship(user_id=b, blocking=True),
        pb.Relationship(user_id=c, muting=True),
    ]
    hidden = [await call(stub, "GetHiddenAuthors", pb.GetHiddenAuthorsRequest(viewer_id=user)) for user in (a, b)]
    assert hidden == [
        pb.GetHiddenAuthorsResponse(blocked_ids=[b], muted_ids=[c]),
        pb.GetHiddenAuthorsResponse(blocked_ids=[a]),
    ]
    with pytest.raises(FailedPrecondition) as caught:
        await call(stub, "Follow", pb.FollowRequest(actor_id=b, followee_id=a))
    assert caught.value.reason == "BLOCKED"
    assert (await call(stub, "Unblock", pb.UnblockRequest(actor_id=a, blocked_id=b))).removed
    assert (await call(stub, "Unmute", pb.UnmuteRequest(actor_id=a, muted_id=c))).removed


async def test_favourites_are_told_in_lists_relationships_and_the_context(stub: Any, make_users: MakeUsers):
    a, b, c, d = await make_users(4)
    await call(stub, "BatchFollow", pb.BatchFollowRequest(actor_id=a, followee_ids=[b, c, d]))
    for favourite in (d, b):
        favour = pb.FavourRequest(actor_id=a, favourite_id=favourite)
        assert [(await call(stub, "Favour", favour)).changed for _ in range(2)] == [True, False]
    first = await call(stub, "ListFavourites", pb.ListFavouritesRequest(user_id=a, page_size=1))
    token = first.next_page_token
    rest = await call(stub, "ListFavourites", pb.ListFavouritesRequest(user_id=a, page_size=1, page_token=token))
    assert [(u.id, u.name, u.follower_count) for u in (*first.users, *rest.users)] == [
        (d, "user 4", 1),
        (b, "user 2", 1),
    ]
    assert rest.next_page_token == ""
    request = pb.BatchGetRelationshipsRequest(viewer_id=a, user_ids=[b, c])
    assert list((await call(stub, "BatchGetRelationships", request)).relationships) == [
        pb.Relationship(user_id=b, following=True, favourite=True),
        pb.Relationship(user_id=c, following=True),
    ]
    context = await call(stub, "GetViewerContext", pb.GetViewerContextRequest(viewer_id=a))
    assert (list(context.followee_ids), list(context.favourite_ids)) == ([b, c, d], [b, d])
    unfavour = pb.UnfavourRequest(actor_id=a, favourite_id=b)
    assert [(await call(stub, "Unfavour", unfavour)).changed for _ in range(2)] == [True, False]


async def test_a_favourite_has_to_be_followed_and_there_are_fifty_at_most(
    stub: Any, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    a, *others = await make_users(53)
    # More than the service, as it runs here, lets anybody follow.
    await sql.executemany("INSERT INTO follows VALUES ($1, $2)", [(a, other) for other in others[:51]])
    for other in others[:50]:
        await call(stub, "Favour", pb.FavourRequest(actor_id=a, favourite_id=other))
    refused: list[tuple[str, dict[str, str]]] = []
    for other in others[50:]:
        with pytest.raises(FailedPrecondition) as caught:
            await call(stub, "Favour", pb.FavourRequest(actor_id=a, favourite_id=other))
        refused.append((caught.value.reason, dict(caught.value.metadata)))
    assert refused == [("FAVOURITES_LIMIT_REACHED", {"limit": "50"}), ("NOT_FOLLOWING", {"user_id": str(others[51])})]


async def test_a_view_is_chosen_and_told(stub: Any, make_users: MakeUsers):
    [a] = await make_users(1)
    told: list[tuple[bool, int, int]] = []
    for view in (pb.HOME_VIEW_LATEST, pb.HOME_VIEW_RANKED, pb.HOME_VIEW_RANKED, pb.HOME_VIEW_LATEST):
        chosen = await call(stub, "ChooseHomeView", pb.ChooseHomeViewRequest(user_id=a, view=view))
        context = await call(stub, "GetViewerContext", pb.GetViewerContextRequest(viewer_id=a))
        answer = await call(stub, "GetHomeView", pb.GetHomeViewRequest(user_id=a))
        told.append((chosen.changed, answer.view, context.home_view))
    assert told == [
        (False, pb.HOME_VIEW_LATEST, pb.HOME_VIEW_LATEST),
        (True, pb.HOME_VIEW_RANKED, pb.HOME_VIEW_RANKED),
        (False, pb.HOME_VIEW_RANKED, pb.HOME_VIEW_RANKED),
        (True, pb.HOME_VIEW_LATEST, pb.HOME_VIEW_LATEST),
    ]


async def test_active_users_are_streamed(stub: Any, make_users: MakeUsers):
    users = await make_users(3)
    for user in users[:2]:
        await call(stub, "RecordActivity", pb.RecordActivityRequest(user_id=user))
    pages = [page async for page in stub.StreamActiveUsers(pb.StreamActiveUsersRequest(active_days=0))]
    found = [user for page in pages for user in page.user_ids]
    assert found == sorted(found)
    assert [user for user in users if user in found] == users[:2]


async def test_a_stream_of_an_unknown_user_is_empty(stub: Any):
    assert [page async for page in stub.StreamFollowees(pb.StreamFolloweesRequest(user_id=NOBODY))] == []


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("GetUser", pb.GetUserRequest(user_id=NOBODY), "user_id"),
        ("Follow", pb.FollowRequest(actor_id=NOBODY, followee_id=1), "actor_id"),
        ("BatchFollow", pb.BatchFollowRequest(actor_id=NOBODY, followee_ids=[1]), "actor_id"),
        ("Unfollow", pb.UnfollowRequest(actor_id=NOBODY, followee_id=1), "actor_id"),
        ("ListFollowers", pb.ListFollowersRequest(user_id=NOBODY), "user_id"),
        ("ListFollowees", pb.ListFolloweesRequest(user_id=NOBODY), "user_id"),
        ("BatchGetRelationships", pb.BatchGetRelationshipsRequest(viewer_id=NOBODY), "viewer_id"),
        ("RecordActivity", pb.RecordActivityRequest(user_id=NOBODY), "user_id"),
        ("GetViewerContext", pb.GetViewerContextRequest(viewer_id=NOBODY), "viewer_id"),
        ("Favour", pb.FavourRequest(actor_id=NOBODY, favourite_id=1), "actor_id"),
        ("Unfavour", pb.UnfavourRequest(actor_id=NOBODY, favourite_id=1), "actor_id"),
        ("ListFavourites", pb.ListFavouritesRequest(user_id=NOBODY), "user_id"),
        ("ChooseHomeView", pb.ChooseHomeViewRequest(user_id=NOBODY, view=pb.HOME_VIEW_RANKED), "user_id"),
        ("GetHomeView", pb.GetHomeViewRequest(user_id=NOBODY), "user_id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_unknown_user_is_not_found_and_the_field_named(stub: Any, method: str, request_: Any, field: str):
    with pytest.raises(NotFound) as caught:
        await call(stub, method, request_)
    assert (caught.value.reason, caught.value.metadata) == (
        "USER_NOT_FOUND",
        {"user_id": str(NOBODY), "field": field},
    )


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("CreateUser", pb.CreateUserRequest(), "name"),
        ("CreateUser", pb.CreateUserRequest(name=" \t "), "name"),
        ("CreateUser", pb.CreateUserRequest(name="a\0b"), "name"),
        ("CreateUser", pb.CreateUserRequest(name="x" * 101), "name"),
        ("GetUser", pb.GetUserRequest(), "user_id"),
        ("GetUser", pb.GetUserRequest(user_id=-1), "user_id"),
        ("BatchGetUsers", pb.BatchGetUsersRequest(user_ids=[1, 0]), "user_ids[1]"),
        ("BatchGetUsers", pb.BatchGetUsersRequest(user_ids=range(1, 1002)), "user_ids"),
        ("BatchGetUsers", pb.BatchGetUsersRequest(user_ids=[1], view=7), "view"),  # pyright: ignore[reportArgumentType]
        ("Follow", pb.FollowRequest(followee_id=1), "actor_id"),
        ("Follow", pb.FollowRequest(actor_id=1), "followee_id"),
        ("BatchFollow", pb.BatchFollowRequest(actor_id=1), "followee_ids"),
        ("BatchFollow", pb.BatchFollowRequest(actor_id=1, followee_ids=range(1, 1002)), "followee_ids"),
        ("Unfollow", pb.UnfollowRequest(actor_id=1, followee_id=-5), "followee_id"),
        ("ListFollowers", pb.ListFollowersRequest(user_id=1, page_size=-1), "page_size"),
        ("ListFollowers", pb.ListFollowersRequest(user_id=1, page_token="x" * 65), "page_token"),
        ("ListFollowers", pb.ListFollowersRequest(user_id=1, page_token="1:2"), "page_token"),  # noqa: S106
        ("ListFollowees", pb.ListFolloweesRequest(user_id=1, page_token="a\0"), "page_token"),  # noqa: S106
        ("BatchGetRelationships", pb.BatchGetRelationshipsRequest(viewer_id=1, user_ids=[-1]), "user_ids[0]"),
        ("RecordActivity", pb.RecordActivityRequest(), "user_id"),
        ("GetViewerContext", pb.GetViewerContextRequest(), "viewer_id"),
        ("Favour", pb.FavourRequest(actor_id=1), "favourite_id"),
        ("Unfavour", pb.UnfavourRequest(favourite_id=1), "actor_id"),
        ("ListFavourites", pb.ListFavouritesRequest(user_id=1, page_size=-1), "page_size"),
        ("ListFavourites", pb.ListFavouritesRequest(user_id=1, page_token="AgAAAAAAAAAB"), "page_token"),  # noqa: S106
        ("ChooseHomeView", pb.ChooseHomeViewRequest(user_id=1), "view"),
        ("ChooseHomeView", pb.ChooseHomeViewRequest(user_id=1, view=3), "view"),  # pyright: ignore[reportArgumentType]
        ("GetHomeView", pb.GetHomeViewRequest(), "user_id"),
        ("ClassifyAuthors", pb.ClassifyAuthorsRequest(author_ids=range(1, 1002)), "author_ids"),
        ("ClassifyAuthors", pb.ClassifyAuthorsRequest(author_ids=[1], celebrity_threshold=-1), "celebrity_threshold"),
        ("ListPulledAuthors", pb.ListPulledAuthorsRequest(since_version=-1), "since_version"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_invalid_argument_is_refused_and_named(stub: Any, method: str, request_: Any, field: str):
    with pytest.raises(InvalidArgument) as caught:
        await call(stub, method, request_)
    assert {violation.field for violation in caught.value.violations} == {field}


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("StreamFollowers", pb.StreamFollowersRequest()),
        ("StreamActiveFollowers", pb.StreamActiveFollowersRequest(active_days=1)),
        ("StreamFollowees", pb.StreamFolloweesRequest(user_id=-1)),
    ],
)
async def test_an_invalid_argument_of_a_stream_is_refused_and_named(stub: Any, method: str, request_: Any):
    with pytest.raises(InvalidArgument) as caught:
        await anext(getattr(stub, method)(request_))
    assert {violation.field for violation in caught.value.violations} == {"user_id"}


async def test_an_event_carries_the_trace_of_its_request(
    service: str, make_users: MakeUsers, sql: "asyncpg.Connection[asyncpg.Record]"
):
    a, b = await make_users(2)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    metadata = (("traceparent", f"00-{trace_id}-b7ad6b7169203331-01"),)
    async with grpc.aio.insecure_channel(service) as plain:
        await call_with(plain, pb.FollowRequest(actor_id=a, followee_id=b), metadata)
    headers = await sql.fetchval("SELECT headers->>'traceparent' FROM outbox WHERE key = $1", str(a))
    assert headers.split("-")[1] == trace_id


async def call_with(plain: grpc.aio.Channel, request: pb.FollowRequest, metadata: tuple[tuple[str, str], ...]) -> None:
    await graph_pb2_grpc.GraphServiceStub(plain).Follow(request, metadata=metadata)


def test_migrating_again_changes_nothing(dsn: str, valkey: Valkey):
    command = [sys.executable, "-m", "graph_service", "migrate"]
    environment = {**os.environ, "FEED_POSTGRES_DSN": dsn, "FEED_REDIS_URL": valkey.url}
    assert [subprocess.run(command, env=environment, check=False).returncode for _ in range(2)] == [0, 0]
