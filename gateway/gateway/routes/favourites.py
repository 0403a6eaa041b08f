"""Whose posts have a place in the acting user's ranked feed."""

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from starlette.requests import Request

from gateway import identity, parameters, presentation
from gateway.answers import NO_CONTENT, Answer, ok
from gateway.problems import about_oneself
from gateway.resource import Paths


class Favourites:
    """`/api/favourites`, of the acting user and for their eyes alone."""

    def __init__(self, graph: "graph_pb2_grpc.GraphServiceAsyncStub") -> None:
        self._graph = graph

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/favourites": {"GET": self.page},
            "/api/favourites/{id}": {"PUT": self.favour, "DELETE": self.unfavour},
        }

    async def page(self, request: Request) -> Answer:
        """The acting user's favourites, the newest follow first."""
        message = graph_pb2.ListFavouritesRequest(
            user_id=identity.acting_user(request),
            page_size=parameters.limit(request),
            page_token=parameters.page_token(request),
        )
        with about_oneself():
            answer = await self._graph.ListFavourites(message)
        return ok(presentation.users(answer.users, answer.next_page_token))

    async def favour(self, request: Request) -> Answer:
        """Make a followed user a favourite; again, too."""
        actor_id, favourite_id = identity.acting_user(request), parameters.path_id(request)
        await self._graph.Favour(graph_pb2.FavourRequest(actor_id=actor_id, favourite_id=favourite_id))
        return NO_CONTENT

    async def unfavour(self, request: Request) -> Answer:
        """Make a user no favourite; again, too."""
        actor_id, favourite_id = identity.acting_user(request), parameters.path_id(request)
        await self._graph.Unfavour(graph_pb2.UnfavourRequest(actor_id=actor_id, favourite_id=favourite_id))
        return NO_CONTENT
