"""Protobuf to domain and back."""

from collections.abc import AsyncIterator, Mapping

from feed.graph.v1 import graph_pb2 as pb
from feed.graph.v1 import graph_pb2_grpc

from graph_service.activity import Activity
from graph_service.follow_lists import FollowLists, Side
from graph_service.follows import FollowResult, Follows, Outcome
from graph_service.pulled_authors import PulledAuthors
from graph_service.relationships import Relationships
from graph_service.users import User, Users
from graph_service.viewer_context import ViewerContexts

_OUTCOMES: Mapping[Outcome, pb.FollowOutcome.ValueType] = {
    Outcome.FOLLOWED: pb.FOLLOW_OUTCOME_FOLLOWED,
    Outcome.ALREADY: pb.FOLLOW_OUTCOME_ALREADY,
    Outcome.REFUSED: pb.FOLLOW_OUTCOME_REFUSED,
}


class Servicer(graph_pb2_grpc.GraphServiceServicer):
    """Serves feed.graph.v1.GraphService."""

    def __init__(
        self,
        *,
        users: Users,
        follows: Follows,
        follow_lists: FollowLists,
        relationships: Relationships,
        activity: Activity,
        pulled_authors: PulledAuthors,
        viewer_contexts: ViewerContexts,
    ) -> None:
        self._users = users
        self._follows = follows
        self._follow_lists = follow_lists
        self._relationships = relationships
        self._activity = activity
        self._pulled_authors = pulled_authors
        self._viewer_contexts = viewer_contexts

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

    async def ListFollowers(self, request: pb.ListFollowersRequest, context: object) -> pb.ListFollowersResponse:
        page = await self._follow_lists.page(Side.FOLLOWERS, request.user_id, request.page_size, request.page_token)
        return pb.ListFollowersResponse(users=map(_user, page.users), next_page_token=page.next_page_token)

    async def ListFollowees(self, request: pb.ListFolloweesRequest, context: object) -> pb.ListFolloweesResponse:
        page = await self._follow_lists.page(Side.FOLLOWEES, request.user_id, request.page_size, request.page_token)
        return pb.ListFolloweesResponse(users=map(_user, page.users), next_page_token=page.next_page_token)

    async def StreamFollowers(
        self, request: pb.StreamFollowersRequest, context: object
    ) -> AsyncIterator[pb.StreamFollowersResponse]:
        async for follower_ids in self._follow_lists.stream(Side.FOLLOWERS, request.user_id):
            yield pb.StreamFollowersResponse(follower_ids=follower_ids)

    async def StreamActiveFollowers(
        self, request: pb.StreamActiveFollowersRequest, context: object
    ) -> AsyncIterator[pb.StreamActiveFollowersResponse]:
        stream = self._follow_lists.stream_active_followers(request.user_id, request.active_days)
        async for follower_ids in stream:
            yield pb.StreamActiveFollowersResponse(follower_ids=follower_ids)

    async def StreamFollowees(
        self, request: pb.StreamFolloweesRequest, context: object
    ) -> AsyncIterator[pb.StreamFolloweesResponse]:
        async for followee_ids in self._follow_lists.stream(Side.FOLLOWEES, request.user_id):
            yield pb.StreamFolloweesResponse(followee_ids=followee_ids)

    async def BatchGetRelationships(
        self, request: pb.BatchGetRelationshipsRequest, context: object
    ) -> pb.BatchGetRelationshipsResponse:
        relationships = await self._relationships.get_many(request.viewer_id, request.user_ids)
        return pb.BatchGetRelationshipsResponse(
            relationships=[
                pb.Relationship(user_id=user_id, following=following, followed_by=followed_by)
                for user_id, following, followed_by in relationships
            ]
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
        )

    async def ListPulledAuthors(
        self, request: pb.ListPulledAuthorsRequest, context: object
    ) -> pb.ListPulledAuthorsResponse:
        change = await self._pulled_authors.entered_since(request.since_version)
        return pb.ListPulledAuthorsResponse(version=change.version, entered_author_ids=change.entered_author_ids)

    async def GetViewerContext(
        self, request: pb.GetViewerContextRequest, context: object
    ) -> pb.GetViewerContextResponse:
        viewer = await self._viewer_contexts.get(request.viewer_id)
        return pb.GetViewerContextResponse(followee_ids=viewer.followee_ids)


def _user(user: User) -> pb.User:
    return pb.User(id=user.id, name=user.name, follower_count=user.follower_count, following_count=user.following_count)


def _result(result: FollowResult) -> pb.FollowResult:
    return pb.FollowResult(
        followee_id=result.followee_id, outcome=_OUTCOMES[result.outcome], reason=result.refusal or ""
    )
