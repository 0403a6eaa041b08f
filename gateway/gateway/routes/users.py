"""Users, those around them, and what they wrote."""

import msgspec
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import validation
from feedkit.errors import user_not_found
from starlette.requests import Request

from gateway import author_page, bodies, identity, parameters, presentation
from gateway.answers import Answer, created, ok
from gateway.resource import Paths
from gateway.services import Services


class NewUser(msgspec.Struct):
    """The body of `POST /api/users`."""

    name: str


_NEW_USER = msgspec.json.Decoder(NewUser)


class Users:
    """`/api/users` and what lies below it. No identity is needed; one that is sent must be well-formed."""

    def __init__(self, services: Services) -> None:
        self._graph: graph_pb2_grpc.GraphServiceAsyncStub = services.graph
        self._post: post_pb2_grpc.PostServiceAsyncStub = services.post
        self._hydrate: hydrate_pb2_grpc.HydrateServiceAsyncStub = services.hydrate

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/users": {"GET": self.batch, "POST": self.create},
            "/api/users/{id}": {"GET": self.get},
            "/api/users/{id}/posts": {"GET": self.posts},
            "/api/users/{id}/followers": {"GET": self.followers},
            "/api/users/{id}/following": {"GET": self.following},
        }

    async def create(self, request: Request) -> Answer:
        """Create a user."""
        body = await bodies.decode(request, _NEW_USER)
        message = graph_pb2.CreateUserRequest(name=body.name)
        validation.check(message)
        user = (await self._graph.CreateUser(message)).user
        return created(f"/api/users/{user.id}", presentation.user(user))

    async def get(self, request: Request) -> Answer:
        """One user with counts."""
        identity.viewer(request)
        answer = await self._graph.GetUser(graph_pb2.GetUserRequest(user_id=parameters.path_id(request)))
        return ok(presentation.user(answer.user))

    async def batch(self, request: Request) -> Answer:
        """Many users with counts; unknown ones are left out."""
        identity.viewer(request)
        answer = await self._graph.BatchGetUsers(
            graph_pb2.BatchGetUsersRequest(user_ids=parameters.ids(request), view=graph_pb2.USER_VIEW_FULL)
        )
        return ok(presentation.users(answer.users))

    async def followers(self, request: Request) -> Answer:
        """Who follows a user, the newest follow first."""
        identity.viewer(request)
        answer = await self._graph.ListFollowers(
            graph_pb2.ListFollowersRequest(
                user_id=parameters.path_id(request),
                page_size=parameters.limit(request),
                page_token=parameters.page_token(request),
            )
        )
        return ok(presentation.users(answer.users, answer.next_page_token))

    async def following(self, request: Request) -> Answer:
        """Whom a user follows, the newest follow first."""
        identity.viewer(request)
        answer = await self._graph.ListFollowees(
            graph_pb2.ListFolloweesRequest(
                user_id=parameters.path_id(request),
                page_size=parameters.limit(request),
                page_token=parameters.page_token(request),
            )
        )
        return ok(presentation.users(answer.users, answer.next_page_token))

    async def posts(self, request: Request) -> Answer:
        """What a user wrote, newest first."""
        viewer_id = identity.viewer(request)
        user_id = parameters.path_id(request)
        listed = await self._post.ListAuthorPostIds(
            post_pb2.ListAuthorPostIdsRequest(
                author_id=user_id, page_size=parameters.limit(request), page_token=parameters.cursor(request)
            )
        )
        posts, next_cursor = await self._shown(viewer_id, user_id, listed)
        if not posts:
            # Of a user who has just been deleted, posts may still be listed that are not there any more.
            await self._require_user(user_id)
        return ok(presentation.page([presentation.hydrated(post) for post in posts], next_cursor))

    async def _shown(
        self, viewer_id: int, user_id: int, listed: post_pb2.ListAuthorPostIdsResponse
    ) -> tuple[list[hydrate_pb2.HydratedPost], str]:
        if not listed.post_ids:
            return [], ""
        answer = await self._hydrate.HydratePosts(
            hydrate_pb2.HydratePostsRequest(
                viewer_id=viewer_id,
                post_ids=listed.post_ids,
                author_ids=[user_id] * len(listed.post_ids),
                surface=hydrate_pb2.SURFACE_POST,
            )
        )
        return author_page.cut(answer.hydrations, listed.next_page_token)

    async def _require_user(self, user_id: int) -> None:
        # To `post` an author who does not exist is one who wrote nothing, or whose posts have yet to be erased.
        answer = await self._graph.BatchGetUsers(
            graph_pb2.BatchGetUsersRequest(user_ids=[user_id], view=graph_pb2.USER_VIEW_BASIC)
        )
        if not answer.users:
            raise user_not_found(user_id, "user_id")
