"""Protobuf to domain and back."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from feed.graph.v1 import accounts_pb2 as accounts
from feed.graph.v1 import accounts_pb2_grpc, graph_pb2_grpc
from feed.graph.v1 import graph_pb2 as pb
from feedkit.interceptors import Context

from graph_service.accounts import Accounts
from graph_service.activity import Activity
from graph_service.blocks import Blocks
from graph_service.erasure import Erasure
from graph_service.favourites import Favourites
from graph_service.follows import FollowResult, Follows, Outcome
from graph_service.hidden_authors import HiddenAuthorLists
from graph_service.home_views import HomeView, HomeViews
from graph_service.mutes import Mutes
from graph_service.operators import Operators
from graph_service.pulled_authors import PulledAuthors
from graph_service.relationships import Relationships
from graph_service.user_lists import Side, UserLists
from graph_service.users import Standing, User, Users
from graph_service.viewer_context import ViewerContexts

_OUTCOMES: Mapping[Outcome, pb.FollowOutcome.ValueType] = {
    Outcome.FOLLOWED: pb.FOLLOW_OUTCOME_FOLLOWED,
    Outcome.ALREADY: pb.FOLLOW_OUTCOME_ALREADY,
    Outcome.REFUSED: pb.FOLLOW_OUTCOME_REFUSED,
}
_STANDINGS: Mapping[Standing, pb.UserStanding.ValueType] = {
    Standing.ACTIVE: pb.USER_STANDING_ACTIVE,
    Standing.SUSPENDED: pb.USER_STANDING_SUSPENDED,
}
_HOME_VIEWS: Mapping[HomeView, pb.HomeView.ValueType] = {
    HomeView.LATEST: pb.HOME_VIEW_LATEST,
    HomeView.RANKED: pb.HOME_VIEW_RANKED,
}
_CHOICES: Mapping[pb.HomeView.ValueType, HomeView] = {choice: view for view, choice in _HOME_VIEWS.items()}


class Servicer(graph_pb2_grpc.GraphServiceServicer):
    """Serves feed.graph.v1.GraphService."""

    def __init__(
        self,
        *,
        users: Users,
        follows: Follows,
        blocks: Blocks,
        mutes: Mutes,
        favourites: Favourites,
        home_views: HomeViews,
        user_lists: UserLists,
        relationships: Relationships,
        activity: Activity,
        pulled_authors: PulledAuthors,
        viewer_contexts: ViewerContexts,
        hidden_authors: HiddenAuthorLists,
        erasure: Erasure,
    ) -> None:
        self._users = users
        self._follows = follows
        self._blocks = blocks
        self._mutes = mutes
        self._favourites = favourites
        self._home_views = home_views
        self._user_lists = user_lists
        self._relationships = relationships
        self._activity = activity
        self._pulled_authors = pulled_authors
        self._viewer_contexts = viewer_contexts
        self._hidden_authors = hidden_authors
        self._erasure = erasure

    async def CreateUser(self, request: pb.CreateUserRequest, context: object) -> pb.CreateUserResponse:
        return pb.CreateUserResponse(user=_user(await self._users.create(request.name)))

    async def GetUser(self, request: pb.GetUserRequest, context: object) -> pb.GetUserResponse:
        return pb.GetUserResponse(user=_user(await self._users.get(request.user_id)))

    async def BatchGetUsers(self, request: pb.BatchGetUsersRequest, context: object) -> pb.BatchGetUsersResponse:
        with_counts = request.view != pb.USER_VIEW_BASIC
        users = await self._users.get_many(request.user_ids, with_counts=with_counts)
        return pb.BatchGetUsersResponse(users=map(_user, users))

    async def Follow(self, request: pb.FollowRequest, context: object) -> pb.FollowResponse:
        return pb.FollowResponse(created=await self._follows.follow(request.actor_id, request.followee_id))

    async def BatchFollow(self, request: pb.BatchFollowRequest, context: object) -> pb.BatchFollowResponse:
        results = await self._follows.follow_many(request.actor_id, request.followee_ids)
        return pb.BatchFollowResponse(results=map(_result, results))

    async def Unfollow(self, request: pb.UnfollowRequest, context: object) -> pb.UnfollowResponse:
        return pb.UnfollowResponse(removed=await self._follows.unfollow(request.actor_id, request.followee_id))

    async def Block(self, request: pb.BlockRequest, context: object) -> pb.BlockResponse:
        return pb.BlockResponse(created=await self._blocks.block(request.actor_id, request.blocked_id))

    async def Unblock(self, request: pb.UnblockRequest, context: object) -> pb.UnblockResponse:
        return pb.UnblockResponse(removed=await self._blocks.unblock(request.actor_id, request.blocked_id))

    async def Mute(self, request: pb.MuteRequest, context: object) -> pb.MuteResponse:
        return pb.MuteResponse(created=await self._mutes.mute(request.actor_id, request.muted_id))

    async def Unmute(self, request: pb.UnmuteRequest, context: object) -> pb.UnmuteResponse:
        return pb.UnmuteResponse(removed=await self._mutes.unmute(request.actor_id, request.muted_id))

    async def ListBlocked(self, request: pb.ListBlockedRequest, context: object) -> pb.ListBlockedResponse:
        page = await self._user_lists.page(Side.BLOCKED, request.user_id, request.page_size, request.page_token)
        return pb.ListBlockedResponse(users=map(_user, page.users), next_page_token=page.next_page_token)

    async def ListMuted(self, request: pb.ListMutedRequest, context: object) -> pb.ListMutedResponse:
        page = await self._user_lists.page(Side.MUTED, request.user_id, request.page_size, request.page_token)
        return pb.ListMutedResponse(users=map(_user, page.users), next_page_token=page.next_page_token)

    async def Favour(self, request: pb.FavourRequest, context: object) -> pb.FavourResponse:
        return pb.FavourResponse(changed=await self._favourites.favour(request.actor_id, request.favourite_id))

    async def Unfavour(self, request: pb.UnfavourRequest, context: object) -> pb.UnfavourResponse:
        return pb.UnfavourResponse(changed=await self._favourites.unfavour(request.actor_id, request.favourite_id))

    async def ListFavourites(self, request: pb.ListFavouritesRequest, context: object) -> pb.ListFavouritesResponse:
        page = await self._user_lists.page(Side.FAVOURITES, request.user_id, request.page_size, request.page_token)
        return pb.ListFavouritesResponse(users=map(_user, page.users), next_page_token=page.next_page_token)

    async def ChooseHomeView(self, request: pb.ChooseHomeViewRequest, context: object) -> pb.ChooseHomeViewResponse:
        changed = await self._home_views.choose(request.user_id, _CHOICES[request.view])
        return pb.ChooseHomeViewResponse(changed=changed)

    async def GetHomeView(self, request: pb.GetHomeViewRequest, context: object) -> pb.GetHomeViewResponse:
        return pb.GetHomeViewResponse(view=_HOME_VIEWS[await self._home_views.get(request.user_id)])

    async def ListFollowers(self, request: pb.ListFollowersRequest, context: object) -> pb.ListFollowersResponse:
        page = await self._user_lists.page(Side.FOLLOWERS, request.user_id, request.page_size, request.page_token)
        return pb.ListFollowersResponse(users=map(_user, page.users), next_page_token=page.next_page_token)

    async def ListFollowees(self, request: pb.ListFolloweesRequest, context: object) -> pb.ListFolloweesResponse:
        page = await self._user_lists.page(Side.FOLLOWEES, request.user_id, request.page_size, request.page_token)
        return pb.ListFolloweesResponse(users=map(_user, page.users), next_page_token=page.next_page_token)

    async def StreamFollowers(
        self, request: pb.StreamFollowersRequest, context: object
    ) -> AsyncIterator[pb.StreamFollowersResponse]:
        async for follower_ids in self._user_lists.stream(Side.FOLLOWERS, request.user_id):
            yield pb.StreamFollowersResponse(follower_ids=follower_ids)

    async def StreamActiveFollowers(
        self, request: pb.StreamActiveFollowersRequest, context: object
    ) -> AsyncIterator[pb.StreamActiveFollowersResponse]:
        stream = self._user_lists.stream_active_followers(request.user_id, request.active_days)
        async for follower_ids in stream:
            yield pb.StreamActiveFollowersResponse(follower_ids=follower_ids)

    async def StreamFollowees(
        self, request: pb.StreamFolloweesRequest, context: object
    ) -> AsyncIterator[pb.StreamFolloweesResponse]:
        async for followee_ids in self._user_lists.stream(Side.FOLLOWEES, request.user_id):
            yield pb.StreamFolloweesResponse(followee_ids=followee_ids)

    async def StreamActiveUsers(
        self, request: pb.StreamActiveUsersRequest, context: object
    ) -> AsyncIterator[pb.StreamActiveUsersResponse]:
        async for user_ids in self._activity.stream_active_users(request.active_days):
            yield pb.StreamActiveUsersResponse(user_ids=user_ids)

    async def BatchGetRelationships(
        self, request: pb.BatchGetRelationshipsRequest, context: object
    ) -> pb.BatchGetRelationshipsResponse:
        relationships = await self._relationships.get_many(request.viewer_id, request.user_ids)
        return pb.BatchGetRelationshipsResponse(
            relationships=[pb.Relationship(**relationship._asdict()) for relationship in relationships]
        )

    async def RecordActivity(self, request: pb.RecordActivityRequest, context: object) -> pb.RecordActivityResponse:
        await self._activity.record(request.user_id)
        return pb.RecordActivityResponse()

    async def ClassifyAuthors(self, request: pb.ClassifyAuthorsRequest, context: object) -> pb.ClassifyAuthorsResponse:
        decisions = await self._pulled_authors.classify(request.author_ids, request.celebrity_threshold)
        return pb.ClassifyAuthorsResponse(
            author_ids=[decision.author_id for decision in decisions],
            pulled=[decision.pulled for decision in decisions],
            follower_counts=[decision.follower_count for decision in decisions],
            deleted_author_ids=[decision.author_id for decision in decisions if decision.deleted],
        )

    async def ListPulledAuthors(
        self, request: pb.ListPulledAuthorsRequest, context: object
    ) -> pb.ListPulledAuthorsResponse:
        change = await self._pulled_authors.changes_since(request.since_version)
        return pb.ListPulledAuthorsResponse(**change._asdict())

    async def ListShrunkAuthors(
        self, request: pb.ListShrunkAuthorsRequest, context: object
    ) -> pb.ListShrunkAuthorsResponse:
        authors = await self._pulled_authors.shrunk(request.follower_count, request.limit)
        return pb.ListShrunkAuthorsResponse(authors=[pb.ShrunkAuthor(**author._asdict()) for author in authors])

    async def LeavePulledAuthors(
        self, request: pb.LeavePulledAuthorsRequest, context: object
    ) -> pb.LeavePulledAuthorsResponse:
        left = await self._pulled_authors.leave(request.author_id, request.sequence)
        return pb.LeavePulledAuthorsResponse(left=left)

    async def GetViewerContext(
        self, request: pb.GetViewerContextRequest, context: object
    ) -> pb.GetViewerContextResponse:
        viewer = await self._viewer_contexts.get(request.viewer_id)
        return pb.GetViewerContextResponse(
            followee_ids=viewer.followee_ids,
            favourite_ids=viewer.favourite_ids,
            home_view=_HOME_VIEWS[viewer.home_view],
        )

    async def GetHiddenAuthors(
        self, request: pb.GetHiddenAuthorsRequest, context: object
    ) -> pb.GetHiddenAuthorsResponse:
        hidden = await self._hidden_authors.get(request.viewer_id)
        return pb.GetHiddenAuthorsResponse(**hidden._asdict())

    async def EraseUser(self, request: pb.EraseUserRequest, context: object) -> pb.EraseUserResponse:
        erased = await self._erasure.erase(request.user_id)
        return pb.EraseUserResponse(erased_edges=erased.edges, done=erased.done)


class AccountServicer(accounts_pb2_grpc.AccountServiceServicer):
    """Serves feed.graph.v1.AccountService, to operators alone."""

    def __init__(self, accounts: Accounts, operators: Operators) -> None:
        self._accounts = accounts
        self._operators = operators

    async def SuspendUser(self, request: accounts.SuspendUserRequest, context: Context) -> accounts.SuspendUserResponse:
        self._operators.require(_authorizations(context))
        await self._accounts.suspend(request.user_id)
        return accounts.SuspendUserResponse()

    async def RestoreUser(self, request: accounts.RestoreUserRequest, context: Context) -> accounts.RestoreUserResponse:
        self._operators.require(_authorizations(context))
        await self._accounts.restore(request.user_id)
        return accounts.RestoreUserResponse()

    async def DeleteUser(self, request: accounts.DeleteUserRequest, context: Context) -> accounts.DeleteUserResponse:
        self._operators.require(_authorizations(context))
        await self._accounts.delete(request.user_id)
        return accounts.DeleteUserResponse()


def _authorizations(context: Context) -> Sequence[str]:
    """The metadata `authorization` of a call, as often as it is there."""
    metadata: Iterable[tuple[str, str | bytes]] = context.invocation_metadata() or ()
    return [str(value) for name, value in metadata if name == "authorization"]


def _user(user: User) -> pb.User:
    user_id, name, follower_count, following_count, standing = user
    return pb.User(
        id=user_id,
        name=name,
        follower_count=follower_count,
        following_count=following_count,
        standing=_STANDINGS[standing],
    )


def _result(result: FollowResult) -> pb.FollowResult:
    return pb.FollowResult(
        followee_id=result.followee_id, outcome=_OUTCOMES[result.outcome], reason=result.refusal or ""
    )
