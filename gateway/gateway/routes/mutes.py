"""Whom the acting user mutes."""

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from starlette.requests import Request

from gateway import identity, parameters, presentation
from gateway.answers import NO_CONTENT, Answer, ok
from gateway.problems import about_oneself
from gateway.resource import Paths


class Mutes:
    """`/api/mutes`, of the acting user and for their eyes alone."""

    def __init__(self, graph: "graph_pb2_grpc.GraphServiceAsyncStub") -> None:
        self._graph = graph

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/mutes": {"GET": self.page},
            "/api/mutes/{id}": {"PUT": self.mute, "DELETE": self.unmute},
        }

    async def page(self, request: Request) -> Answer:
        """Whom the acting user mutes, the newest mute first."""
        message = graph_pb2.ListMutedRequest(
            user_id=identity.acting_user(request),
            page_size=parameters.limit(request),
            page_token=parameters.page_token(request),
        )
        with about_oneself():
            answer = await self._graph.ListMuted(message)
        return ok(presentation.users(answer.users, answer.next_page_token))

    async def mute(self, request: Request) -> Answer:
        """Mute a user; again, too."""
        actor_id = identity.acting_user(request)
        await self._graph.Mute(graph_pb2.MuteRequest(actor_id=actor_id, muted_id=parameters.path_id(request)))
        return NO_CONTENT

    async def unmute(self, request: Request) -> Answer:
        """Mute a user no longer; again, too."""
        actor_id = identity.acting_user(request)
        await self._graph.Unmute(graph_pb2.UnmuteRequest(actor_id=actor_id, muted_id=parameters.path_id(request)))
        return NO_CONTENT
