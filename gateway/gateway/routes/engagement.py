"""What somebody does with a post: like it, repost it, or care little for it."""

import msgspec
from feed.post.v1 import post_pb2, post_pb2_grpc
from starlette.requests import Request

from gateway import bodies, identity, parameters, presentation
from gateway.answers import NO_CONTENT, Answer, ok
from gateway.resource import Methods, Paths

_FEEDBACK = {"less_like_this": post_pb2.FEEDBACK_LESS_LIKE_THIS, "hide": post_pb2.FEEDBACK_HIDE}


class NewFeedback(msgspec.Struct):
    """The body of `POST /api/posts/{id}/feedback`."""

    kind: str


_NEW_FEEDBACK = msgspec.json.Decoder(NewFeedback)


class Engagement:
    """`/api/posts/{id}/like`, `/repost` and `/feedback`, of the acting user."""

    def __init__(self, post: "post_pb2_grpc.PostServiceAsyncStub") -> None:
        self._post = post

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/posts/{id}/like": self._mark(post_pb2.ENGAGEMENT_LIKE),
            "/api/posts/{id}/repost": self._mark(post_pb2.ENGAGEMENT_REPOST),
            "/api/posts/{id}/feedback": {"POST": self.give_feedback},
        }

    def _mark(self, engagement: post_pb2.Engagement.ValueType) -> Methods:
        """A mark that is set and taken back; either again, too. The answer has the counts as they are then."""

        async def engage(request: Request) -> Answer:
            actor_id, post_id = identity.acting_user(request), parameters.path_id(request)
            answer = await self._post.Engage(
                post_pb2.EngageRequest(actor_id=actor_id, post_id=post_id, engagement=engagement)
            )
            return ok(presentation.counted(answer.counts))

        async def disengage(request: Request) -> Answer:
            actor_id, post_id = identity.acting_user(request), parameters.path_id(request)
            answer = await self._post.Disengage(
                post_pb2.DisengageRequest(actor_id=actor_id, post_id=post_id, engagement=engagement)
            )
            return ok(presentation.counted(answer.counts if answer.HasField("counts") else None))

        return {"PUT": engage, "DELETE": disengage}

    async def give_feedback(self, request: Request) -> Answer:
        """Tell what one has against a post; again, too."""
        actor_id, post_id = identity.acting_user(request), parameters.path_id(request)
        kind = (await bodies.decode(request, _NEW_FEEDBACK)).kind
        await self._post.GiveFeedback(
            post_pb2.GiveFeedbackRequest(
                actor_id=actor_id, post_id=post_id, feedback=bodies.choice_of(kind, _FEEDBACK, "kind")
            )
        )
        return NO_CONTENT
