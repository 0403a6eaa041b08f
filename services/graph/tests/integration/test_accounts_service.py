"""Accounts, as operators and everybody else meet them: the service as a process."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc.aio
import pytest
from feed.graph.v1 import accounts_pb2
from feed.graph.v1 import graph_pb2 as pb
from feedkit import status
from feedkit.errors import FailedPrecondition, FeedError, NotFound, PermissionDenied
from grpc_health.v1 import health_pb2, health_pb2_grpc

pytestmark = pytest.mark.integration

MakeUsers = Callable[[int], Awaitable[list[int]]]
Metadata = tuple[tuple[str, str], ...]
NOBODY = 2**63 - 1

SUSPEND, RESTORE, DELETE = "SuspendUser", "RestoreUser", "DeleteUser"


async def change(accounts: Any, method: str, user: int, metadata: Metadata) -> None:
    request = getattr(accounts_pb2, f"{method}Request")(user_id=user)
    try:
        await getattr(accounts, method)(request, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        raise status.from_rpc_error(error, "graph") from None


async def refusal(call: Awaitable[Any]) -> tuple[type[FeedError], str, str | None]:
    """The kind of an error, its reason and the field or the user that it names."""
    with pytest.raises(FeedError) as caught:
        await call
    error = caught.value
    return type(error), error.reason, error.metadata.get("field")


# --- who may --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [SUSPEND, RESTORE, DELETE])
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", ""),),
        (("authorization", "Bearer "),),
        (("authorization", "Bearer for-operators-alon"),),
        (("authorization", "Bearer for-operators-alone "),),
        (("authorization", "Basic for-operators-alone"),),
        (("authorization", "for-operators-alone"),),
    ],
)
async def test_nobody_without_the_operators_token_changes_an_account(
    accounts: Any, stub: Any, make_users: MakeUsers, method: str, metadata: Metadata
):
    [user] = await make_users(1)
    expected = (PermissionDenied, "OPERATOR_REQUIRED", None)
    assert await refusal(change(accounts, method, user, metadata)) == expected
    assert await refusal(change(accounts, method, NOBODY, metadata)) == expected
    assert (await stub.GetUser(pb.GetUserRequest(user_id=user))).user.standing == pb.USER_STANDING_ACTIVE


@pytest.mark.parametrize("method", [SUSPEND, RESTORE, DELETE])
async def test_an_unknown_account_is_not_found(accounts: Any, operator: Metadata, method: str):
    assert await refusal(change(accounts, method, NOBODY, operator)) == (NotFound, "USER_NOT_FOUND", "user_id")


async def test_its_health_is_told_by_its_name(service: str):
    async with grpc.aio.insecure_channel(service) as plain:
        health: Any = health_pb2_grpc.HealthStub(plain)
        answer = await health.Check(health_pb2.HealthCheckRequest(service="feed.graph.v1.AccountService"))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


# --- suspended ------------------------------------------------------------------------------------------------------


async def test_a_suspended_user_is_found_as_suspended_until_restored(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    [user] = await make_users(1)
    found: list[object] = []
    for method in (SUSPEND, SUSPEND, RESTORE, RESTORE):
        await change(accounts, method, user, operator)
        found.append((await stub.GetUser(pb.GetUserRequest(user_id=user))).user.standing)
        for view in (pb.USER_VIEW_BASIC, pb.USER_VIEW_FULL):
            batch = await stub.BatchGetUsers(pb.BatchGetUsersRequest(user_ids=[user], view=view))
            assert [(each.name, each.standing) for each in batch.users] == [("user 1", found[-1])]
    assert found == [pb.USER_STANDING_SUSPENDED] * 2 + [pb.USER_STANDING_ACTIVE] * 2


async def test_a_suspended_user_can_neither_follow_nor_be_followed_anew(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    suspended, fan, other = await make_users(3)
    await stub.Follow(pb.FollowRequest(actor_id=fan, followee_id=suspended))
    await change(accounts, SUSPEND, suspended, operator)
    denied = (PermissionDenied, "ACCOUNT_SUSPENDED", None)
    assert await refusal(stub.Follow(pb.FollowRequest(actor_id=suspended, followee_id=other))) == denied
    assert await refusal(stub.BatchFollow(pb.BatchFollowRequest(actor_id=suspended, followee_ids=[other]))) == denied
    refused = (FailedPrecondition, "USER_SUSPENDED", None)
    assert await refusal(stub.Follow(pb.FollowRequest(actor_id=other, followee_id=suspended))) == refused
    results = (await stub.BatchFollow(pb.BatchFollowRequest(actor_id=other, followee_ids=[suspended, fan]))).results
    assert [(result.outcome, result.reason) for result in results] == [
        (pb.FOLLOW_OUTCOME_REFUSED, "USER_SUSPENDED"),
        (pb.FOLLOW_OUTCOME_FOLLOWED, ""),
    ]
    # A follow that stands is no beginning.
    assert (await stub.Follow(pb.FollowRequest(actor_id=fan, followee_id=suspended))).created is False


async def test_a_suspended_user_may_still_turn_away_from_others(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    suspended, other = await make_users(2)
    await stub.Follow(pb.FollowRequest(actor_id=suspended, followee_id=other))
    await change(accounts, SUSPEND, suspended, operator)
    context = await stub.GetViewerContext(pb.GetViewerContextRequest(viewer_id=suspended))
    assert list(context.followee_ids) == [other]
    assert (await stub.Unfollow(pb.UnfollowRequest(actor_id=suspended, followee_id=other))).removed
    assert (await stub.Block(pb.BlockRequest(actor_id=suspended, blocked_id=other))).created
    assert (await stub.Mute(pb.MuteRequest(actor_id=suspended, muted_id=other))).created
    await stub.RecordActivity(pb.RecordActivityRequest(user_id=suspended))


async def test_a_suspended_user_may_still_choose_what_they_are_shown(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    suspended, other = await make_users(2)
    await stub.Follow(pb.FollowRequest(actor_id=suspended, followee_id=other))
    for user in (suspended, other):
        await change(accounts, SUSPEND, user, operator)
    pair = {"actor_id": suspended, "favourite_id": other}
    assert (await stub.Favour(pb.FavourRequest(**pair))).changed
    ranked = pb.ChooseHomeViewRequest(user_id=suspended, view=pb.HOME_VIEW_RANKED)
    assert (await stub.ChooseHomeView(ranked)).changed
    context = await stub.GetViewerContext(pb.GetViewerContextRequest(viewer_id=suspended))
    assert (list(context.favourite_ids), context.home_view) == ([other], pb.HOME_VIEW_RANKED)
    assert (await stub.Unfavour(pb.UnfavourRequest(**pair))).changed


# --- deleted --------------------------------------------------------------------------------------------------------


REQUESTS: Mapping[str, tuple[str, Callable[[int, int], Any]]] = {
    "GetUser": ("user_id", lambda gone, _: pb.GetUserRequest(user_id=gone)),
    "Follow": ("followee_id", lambda gone, other: pb.FollowRequest(actor_id=other, followee_id=gone)),
    "Follow by them": ("actor_id", lambda gone, other: pb.FollowRequest(actor_id=gone, followee_id=other)),
    "BatchFollow by them": ("actor_id", lambda gone, other: pb.BatchFollowRequest(actor_id=gone, followee_ids=[other])),
    "Unfollow": ("followee_id", lambda gone, other: pb.UnfollowRequest(actor_id=other, followee_id=gone)),
    "Unfollow by them": ("actor_id", lambda gone, other: pb.UnfollowRequest(actor_id=gone, followee_id=other)),
    "Block": ("blocked_id", lambda gone, other: pb.BlockRequest(actor_id=other, blocked_id=gone)),
    "Block by them": ("actor_id", lambda gone, other: pb.BlockRequest(actor_id=gone, blocked_id=other)),
    "Block of themselves": ("actor_id", lambda gone, _: pb.BlockRequest(actor_id=gone, blocked_id=gone)),
    "Unblock": ("blocked_id", lambda gone, other: pb.UnblockRequest(actor_id=other, blocked_id=gone)),
    "Unblock by them": ("actor_id", lambda gone, other: pb.UnblockRequest(actor_id=gone, blocked_id=other)),
    "Mute": ("muted_id", lambda gone, other: pb.MuteRequest(actor_id=other, muted_id=gone)),
    "Mute by them": ("actor_id", lambda gone, other: pb.MuteRequest(actor_id=gone, muted_id=other)),
    "Unmute": ("muted_id", lambda gone, other: pb.UnmuteRequest(actor_id=other, muted_id=gone)),
    "Unmute by them": ("actor_id", lambda gone, other: pb.UnmuteRequest(actor_id=gone, muted_id=other)),
    "Favour": ("favourite_id", lambda gone, other: pb.FavourRequest(actor_id=other, favourite_id=gone)),
    "Favour by them": ("actor_id", lambda gone, other: pb.FavourRequest(actor_id=gone, favourite_id=other)),
    "Unfavour": ("favourite_id", lambda gone, other: pb.UnfavourRequest(actor_id=other, favourite_id=gone)),
    "Unfavour by them": ("actor_id", lambda gone, other: pb.UnfavourRequest(actor_id=gone, favourite_id=other)),
    "ListFavourites": ("user_id", lambda gone, _: pb.ListFavouritesRequest(user_id=gone)),
    "ChooseHomeView": (
        "user_id",
        lambda gone, _: pb.ChooseHomeViewRequest(user_id=gone, view=pb.HOME_VIEW_RANKED),
    ),
    "GetHomeView": ("user_id", lambda gone, _: pb.GetHomeViewRequest(user_id=gone)),
    "ListFollowers": ("user_id", lambda gone, _: pb.ListFollowersRequest(user_id=gone)),
    "ListFollowees": ("user_id", lambda gone, _: pb.ListFolloweesRequest(user_id=gone)),
    "ListBlocked": ("user_id", lambda gone, _: pb.ListBlockedRequest(user_id=gone)),
    "ListMuted": ("user_id", lambda gone, _: pb.ListMutedRequest(user_id=gone)),
    "RecordActivity": ("user_id", lambda gone, _: pb.RecordActivityRequest(user_id=gone)),
    "GetViewerContext": ("viewer_id", lambda gone, _: pb.GetViewerContextRequest(viewer_id=gone)),
    "BatchGetRelationships": (
        "viewer_id",
        lambda gone, other: pb.BatchGetRelationshipsRequest(viewer_id=gone, user_ids=[other]),
    ),
}
"""What names a deleted user: the method, the field, and the request."""


async def test_a_deleted_user_is_not_found_though_nothing_is_erased_yet(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    gone, other = await make_users(2)
    await befriend(stub, gone, other)
    await change(accounts, DELETE, gone, operator)
    for name, (field, make) in REQUESTS.items():
        answered = await refusal(getattr(stub, name.split()[0])(make(gone, other)))
        assert answered == (NotFound, "USER_NOT_FOUND", field), name


async def befriend(stub: Any, a: int, b: int) -> None:
    for actor, other in ((a, b), (b, a)):
        await stub.Follow(pb.FollowRequest(actor_id=actor, followee_id=other))
        await stub.Mute(pb.MuteRequest(actor_id=actor, muted_id=other))
        await stub.Favour(pb.FavourRequest(actor_id=actor, favourite_id=other))


async def test_a_deleted_user_is_in_no_answer_about_others(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    gone, other = await make_users(2)
    await befriend(stub, gone, other)
    await change(accounts, DELETE, gone, operator)
    assert not (await stub.BatchGetUsers(pb.BatchGetUsersRequest(user_ids=[gone]))).users
    assert not (await stub.ListFollowers(pb.ListFollowersRequest(user_id=other))).users
    assert not (await stub.ListFollowees(pb.ListFolloweesRequest(user_id=other))).users
    assert not (await stub.ListMuted(pb.ListMutedRequest(user_id=other))).users
    assert not (await stub.ListFavourites(pb.ListFavouritesRequest(user_id=other))).users
    request = pb.BatchGetRelationshipsRequest(viewer_id=other, user_ids=[gone])
    assert list((await stub.BatchGetRelationships(request)).relationships) == [pb.Relationship(user_id=gone)]
    assert await stub.GetHiddenAuthors(pb.GetHiddenAuthorsRequest(viewer_id=gone)) == pb.GetHiddenAuthorsResponse()


async def test_a_deleted_account_can_be_deleted_again_but_neither_suspended_nor_restored(
    accounts: Any, make_users: MakeUsers, operator: Metadata
):
    [gone] = await make_users(1)
    await change(accounts, DELETE, gone, operator)
    await change(accounts, DELETE, gone, operator)
    for method in (SUSPEND, RESTORE):
        assert await refusal(change(accounts, method, gone, operator)) == (NotFound, "USER_NOT_FOUND", "user_id")


async def test_a_deleted_user_is_erased_call_by_call(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    gone, other, third = await make_users(3)
    await befriend(stub, gone, other)
    await stub.Block(pb.BlockRequest(actor_id=third, blocked_id=gone))
    await change(accounts, DELETE, gone, operator)
    answers = [await stub.EraseUser(pb.EraseUserRequest(user_id=gone)) for _ in range(2)]
    assert [(answer.erased_edges, answer.done) for answer in answers] == [(5, True), (0, True)]
    user = (await stub.GetUser(pb.GetUserRequest(user_id=other))).user
    assert (user.follower_count, user.following_count) == (0, 0)


async def test_only_deleted_users_are_erased(accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata):
    active, suspended = await make_users(2)
    await change(accounts, SUSPEND, suspended, operator)
    for user in (active, suspended, NOBODY):
        refused = (FailedPrecondition, "USER_NOT_DELETED", None)
        assert await refusal(stub.EraseUser(pb.EraseUserRequest(user_id=user))) == refused


async def test_an_author_who_was_deleted_is_told_of_and_enters_no_index(
    accounts: Any, stub: Any, make_users: MakeUsers, operator: Metadata
):
    gone, here = await make_users(2)
    await change(accounts, DELETE, gone, operator)
    request = pb.ClassifyAuthorsRequest(author_ids=[gone, here, NOBODY], celebrity_threshold=0)
    answer = await stub.ClassifyAuthors(request)
    assert list(answer.deleted_author_ids) == [gone]
    assert list(answer.pulled) == [False, True, True]
