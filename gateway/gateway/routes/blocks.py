"""Whom the acting user blocks."""

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from starlette.requests import Request

from gateway import identity, parameters, presentation
from gateway.answers import NO_CONTENT, Answer, ok
from gateway.problems import about_oneself
from gateway.resource import Paths


class Blocks:
    """`/api/blocks`, of the acting user and for their eyes alone."""

    def __init__(self, graph: "graph_pb2_grpc.GraphServiceAsyncStub") -> None:
        self._graph = graph

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/blocks": {"GET": self.page},
            "/api/blocks/{id}": {"PUT": self.block, "DELETE": self.unblock},
        }

    async def page(self, request: Request) -> Answer:
        """Whom the acting user blocks, the newest block first."""
        message = graph_pb2.ListBlockedRequest(
            user_id=identity.acting_user(request),
            page_size=parameters.limit(request),
            page_token=parameters.page_token(request),
        )
        with about_oneself():
            answer = await self._graph.ListBlocked(message)
        return ok(presentation.users(answer.users, answer.next_page_token))

    async def block(self, request: Request) -> Answer:
        """Block a user; again, too."""
        actor_id = identity.acting_user(request)
        await self._graph.Block(graph_pb2.BlockRequest(actor_id=actor_id, blocked_id=parameters.path_id(request)))
        return NO_CONTENT

    async def unblock(self, request: Request) -> Answer:
        """Block a user no longer; again, too."""
        actor_id = identity.acting_user(request)
        await self._graph.Unblock(graph_pb2.UnblockRequest(actor_id=actor_id, blocked_id=parameters.path_id(request)))
        return NO_CONTENT
