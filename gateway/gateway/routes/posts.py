"""Posts."""

from uuid import uuid4

import msgspec
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import validation
from feedkit.errors import PermissionDenied, Unavailable, post_not_found
from google.protobuf.field_mask_pb2 import FieldMask
from msgspec import UNSET, UnsetType
from starlette.requests import Request

from gateway import bodies, identity, parameters, presentation
from gateway.answers import NO_CONTENT, Answer, Header, created, ok
from gateway.problems import about_member, malformed_body, unknown_acting_user
from gateway.resource import Paths
from gateway.services import Services

IDEMPOTENCY_KEY = "Idempotency-Key"
_REPLAYED: Header = (b"idempotency-replayed", b"true")

_NONE_YET = post_pb2.EngagementCounts()


class Media(msgspec.Struct, rename="camel"):
    """A media reference of a post that is to be written."""

    url: str
    type: str
    width: bodies.Int32 = 0
    height: bodies.Int32 = 0
    alt_text: str = ""


class NewPost(msgspec.Struct, rename="camel"):
    """The body of `POST /api/posts`."""

    content: str
    media: list[Media] = []
    reply_to: bodies.Id | None = None


class Changes(msgspec.Struct):
    """The body of `PATCH /api/posts/{id}`. What is absent stays as it is."""

    content: str | UnsetType = UNSET
    media: list[Media] | UnsetType = UNSET


_NEW_POST = msgspec.json.Decoder(NewPost)
_CHANGES = msgspec.json.Decoder(Changes)


class Posts:
    """`/api/posts`. Reads need no identity; one that is sent must be well-formed."""

    def __init__(self, services: Services) -> None:
        self._graph: graph_pb2_grpc.GraphServiceAsyncStub = services.graph
        self._post: post_pb2_grpc.PostServiceAsyncStub = services.post
        self._hydrate: hydrate_pb2_grpc.HydrateServiceAsyncStub = services.hydrate

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {
            "/api/posts": {"GET": self.batch, "POST": self.create},
            "/api/posts/{id}": {"GET": self.get, "PATCH": self.edit, "DELETE": self.delete},
        }

    async def create(self, request: Request) -> Answer:
        """Create a post, or find the one that its idempotency key stands for."""
        author_id = identity.acting_user(request)
        message = _creation(
            author_id, await bodies.decode(request, _NEW_POST), parameters.header(request, IDEMPOTENCY_KEY)
        )
        validation.check(message)
        # The answer needs the name. It is fetched first, so that nothing can fail once the post is there.
        author_name = await self._writer_name(author_id)
        with about_member("replyTo"):
            answer = await self._post.CreatePost(message)
        # Also where a key is used again: the answer is that of the first time.
        post = presentation.post(answer.post, author_name, _NONE_YET)
        return created(f"/api/posts/{post.id}", post, *([_REPLAYED] if answer.replayed else []))

    async def edit(self, request: Request) -> Answer:
        """Change a post of one's own; again, too."""
        actor_id = identity.acting_user(request)
        message = _edit(actor_id, parameters.path_id(request), await bodies.decode(request, _CHANGES))
        validation.check(message)
        author_name = await self._writer_name(actor_id)
        answer = await self._post.EditPost(message)
        counts = answer.counts if answer.HasField("counts") else None
        return ok(presentation.post(answer.post, author_name, counts))

    async def _writer_name(self, user_id: int) -> str:
        answer = await self._graph.BatchGetUsers(
            graph_pb2.BatchGetUsersRequest(user_ids=[user_id], view=graph_pb2.USER_VIEW_BASIC)
        )
        if not answer.users:
            raise unknown_acting_user()
        if answer.users[0].standing == graph_pb2.USER_STANDING_SUSPENDED:
            raise PermissionDenied("ACCOUNT_SUSPENDED", "the account is suspended")
        return answer.users[0].name

    async def get(self, request: Request) -> Answer:
        """One post."""
        viewer_id = identity.viewer(request)
        post_id = parameters.path_id(request)
        shown = await self._shown(viewer_id, [post_id])
        if not shown:
            raise post_not_found(post_id)
        return ok(shown[0])

    async def batch(self, request: Request) -> Answer:
        """Many posts; unknown and deleted ones, and what is withheld, are left out."""
        viewer_id = identity.viewer(request)
        return ok(presentation.page(await self._shown(viewer_id, parameters.ids(request))))

    async def _shown(self, viewer_id: int, post_ids: list[int]) -> list[presentation.Post]:
        """Those of the posts that may be shown. One that cannot be loaded now must not look like one that is not there."""
        answer = await self._hydrate.HydratePosts(
            hydrate_pb2.HydratePostsRequest(viewer_id=viewer_id, post_ids=post_ids, surface=hydrate_pb2.SURFACE_POST)
        )
        for hydration in answer.hydrations:
            if hydration.HasField("unavailable"):
                raise Unavailable.of_dependency(hydration.unavailable.dependency)
        return [presentation.hydrated(hydration.post) for hydration in answer.hydrations if hydration.HasField("post")]

    async def delete(self, request: Request) -> Answer:
        """Delete a post of one's own; again, too."""
        actor_id = identity.acting_user(request)
        await self._post.DeletePost(post_pb2.DeletePostRequest(actor_id=actor_id, post_id=parameters.path_id(request)))
        return NO_CONTENT


def _creation(author_id: int, post: NewPost, idempotency_key: str | None) -> post_pb2.CreatePostRequest:
    return post_pb2.CreatePostRequest(
        author_id=author_id,
        content=post.content,
        media=_media(post.media),
        # Without a key of the client's our own retry, after an answer that was lost, would post twice.
        idempotency_key=idempotency_key or str(uuid4()),
        reply_to_post_id=0 if post.reply_to is None else bodies.id_of(post.reply_to, "replyTo"),
    )


def _edit(actor_id: int, post_id: int, changes: Changes) -> post_pb2.EditPostRequest:
    message = post_pb2.EditPostRequest(actor_id=actor_id, post_id=post_id, update_mask=FieldMask())
    if changes.content is not UNSET:
        message.update_mask.paths.append("content")
        message.content = changes.content
    if changes.media is not UNSET:
        message.update_mask.paths.append("media")
        message.media.extend(_media(changes.media))
    if not message.update_mask.paths:
        raise malformed_body("must have content, media or both")
    return message


def _media(media: list[Media]) -> list[post_pb2.MediaReference]:
    return [
        post_pb2.MediaReference(
            url=item.url, type=item.type, width=item.width, height=item.height, alt_text=item.alt_text
        )
        for item in media
    ]
