"""Whom the acting user follows, and how they stand to others."""

from typing import Annotated

import msgspec
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from starlette.requests import Request

from gateway import bodies, identity, parameters, presentation
from gateway.answers import NO_CONTENT, Answer, ok
from gateway.resource import Paths


class Contacts(msgspec.Struct, rename="camel"):
    """The body of `POST /api/following`."""

    user_ids: Annotated[list[bodies.Id], msgspec.Meta(min_length=1, max_length=1000)]


_CONTACTS = msgspec.json.Decoder(Contacts)


class Following:
    """`/api/following` and `/api/relationships`, of the acting user."""

    def __init__(self, graph: "graph_pb2_grpc.GraphServiceAsyncStub") -> None:
        self._graph = graph

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/following": {"POST": self.follow_many},
            "/api/following/{id}": {"PUT": self.follow, "DELETE": self.unfollow},
            "/api/relationships": {"GET": self.relationships},
        }

    async def follow(self, request: Request) -> Answer:
        """Follow a user; again, too."""
        actor_id = identity.acting_user(request)
        await self._graph.Follow(graph_pb2.FollowRequest(actor_id=actor_id, followee_id=parameters.path_id(request)))
        return NO_CONTENT

    async def unfollow(self, request: Request) -> Answer:
        """Follow a user no longer; again, too."""
        actor_id = identity.acting_user(request)
        await self._graph.Unfollow(
            graph_pb2.UnfollowRequest(actor_id=actor_id, followee_id=parameters.path_id(request))
        )
        return NO_CONTENT

    async def follow_many(self, request: Request) -> Answer:
        """Follow many users, each with an outcome of its own."""
        actor_id = identity.acting_user(request)
        contacts = await bodies.decode(request, _CONTACTS)
        followee_ids = [bodies.id_of(value, f"userIds[{place}]") for place, value in enumerate(contacts.user_ids)]
        answer = await self._graph.BatchFollow(
            graph_pb2.BatchFollowRequest(actor_id=actor_id, followee_ids=followee_ids)
        )
        return ok(presentation.follow_results(answer))

    async def relationships(self, request: Request) -> Answer:
        """How the acting user and many others stand to one another."""
        viewer_id = identity.acting_user(request)
        answer = await self._graph.BatchGetRelationships(
            graph_pb2.BatchGetRelationshipsRequest(viewer_id=viewer_id, user_ids=parameters.ids(request))
        )
        return ok(presentation.page([presentation.relationship(each) for each in answer.relationships]))
