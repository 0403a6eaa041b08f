"""feed.post.v1.PostService: protobuf to domain and back."""

from collections.abc import Iterable

from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit.errors import InvalidArgument

from post_service.engagement import Counts, Engagement, Engagements, Feedback
from post_service.erasure import Erasure
from post_service.impressions import Impression, Impressions, View
from post_service.post import Draft, Edit, Medium, Post
from post_service.posts import Posts


class PostServicer(post_pb2_grpc.PostServiceServicer):
    """Serves posts, and what people do with them."""

    def __init__(self, posts: Posts, engagements: Engagements, impressions: Impressions, erasure: Erasure) -> None:
        self._posts = posts
        self._engagements = engagements
        self._impressions = impressions
        self._erasure = erasure

    async def CreatePost(self, request: post_pb2.CreatePostRequest, context: object) -> post_pb2.CreatePostResponse:
        draft = Draft(request.author_id, request.content, _media(request.media), request.reply_to_post_id)
        created = await self._posts.create(draft, request.idempotency_key)
        return post_pb2.CreatePostResponse(post=_post(created.post), replayed=created.replayed)

    async def GetPost(self, request: post_pb2.GetPostRequest, context: object) -> post_pb2.GetPostResponse:
        return post_pb2.GetPostResponse(post=_post(await self._posts.get(request.post_id)))

    async def BatchGetPosts(
        self, request: post_pb2.BatchGetPostsRequest, context: object
    ) -> post_pb2.BatchGetPostsResponse:
        posts = await self._posts.batch(request.post_ids)
        return post_pb2.BatchGetPostsResponse(posts=map(_post, posts))

    async def ListAuthorPostIds(
        self, request: post_pb2.ListAuthorPostIdsRequest, context: object
    ) -> post_pb2.ListAuthorPostIdsResponse:
        page = await self._posts.of_author(request.author_id, request.page_size, request.page_token)
        return post_pb2.ListAuthorPostIdsResponse(post_ids=page.post_ids, next_page_token=page.next_page_token)

    async def ListRecentByAuthors(
        self, request: post_pb2.ListRecentByAuthorsRequest, context: object
    ) -> post_pb2.ListRecentByAuthorsResponse:
        recent = await self._posts.recent(request.author_ids, request.before_post_id, request.limit)
        return post_pb2.ListRecentByAuthorsResponse(
            post_ids=recent.post_ids,
            author_ids=recent.author_ids,
            complete_to_post_id=recent.complete_to_post_id,
        )

    async def EditPost(self, request: post_pb2.EditPostRequest, context: object) -> post_pb2.EditPostResponse:
        post = await self._posts.edit(request.actor_id, request.post_id, _edit(request))
        counts = await self._engagements.counts([post.id])
        return post_pb2.EditPostResponse(post=_post(post), counts=_counts(counts[post.id]) if counts else None)

    async def DeletePost(self, request: post_pb2.DeletePostRequest, context: object) -> post_pb2.DeletePostResponse:
        await self._posts.delete(request.actor_id, request.post_id)
        return post_pb2.DeletePostResponse()

    async def Engage(self, request: post_pb2.EngageRequest, context: object) -> post_pb2.EngageResponse:
        engagement = Engagement(request.engagement)
        outcome = await self._engagements.engage(request.actor_id, request.post_id, engagement)
        return post_pb2.EngageResponse(counts=_counts(outcome.counts), changed=outcome.changed)

    async def Disengage(self, request: post_pb2.DisengageRequest, context: object) -> post_pb2.DisengageResponse:
        engagement = Engagement(request.engagement)
        outcome = await self._engagements.disengage(request.actor_id, request.post_id, engagement)
        counts = None if outcome.counts is None else _counts(outcome.counts)
        return post_pb2.DisengageResponse(counts=counts, changed=outcome.changed)

    async def GiveFeedback(
        self, request: post_pb2.GiveFeedbackRequest, context: object
    ) -> post_pb2.GiveFeedbackResponse:
        feedback = Feedback(request.feedback)
        changed = await self._engagements.give_feedback(request.actor_id, request.post_id, feedback)
        return post_pb2.GiveFeedbackResponse(changed=changed)

    async def RecordImpressions(
        self, request: post_pb2.RecordImpressionsRequest, context: object
    ) -> post_pb2.RecordImpressionsResponse:
        seen = [Impression(i.post_id, i.position, i.dwell_ms, View(i.seen_in)) for i in request.impressions]
        recorded = await self._impressions.record(request.viewer_id, seen)
        return post_pb2.RecordImpressionsResponse(recorded=recorded)

    async def BatchGetCounts(
        self, request: post_pb2.BatchGetCountsRequest, context: object
    ) -> post_pb2.BatchGetCountsResponse:
        found = await self._engagements.counts(request.post_ids)
        posts = [post_pb2.PostCounts(post_id=post_id, counts=_counts(counts)) for post_id, counts in found.items()]
        return post_pb2.BatchGetCountsResponse(posts=posts)

    async def BatchGetTraits(
        self, request: post_pb2.BatchGetTraitsRequest, context: object
    ) -> post_pb2.BatchGetTraitsResponse:
        traits = await self._posts.traits(request.post_ids)
        return post_pb2.BatchGetTraitsResponse(posts=[post_pb2.PostTraits(**of_one._asdict()) for of_one in traits])

    async def EraseAuthor(self, request: post_pb2.EraseAuthorRequest, context: object) -> post_pb2.EraseAuthorResponse:
        erased = await self._erasure.erase(request.author_id)
        return post_pb2.EraseAuthorResponse(erased_posts=erased.posts, done=erased.done)


def _edit(request: post_pb2.EditPostRequest) -> Edit:
    paths = set(request.update_mask.paths)
    if not paths or paths - {"content", "media"}:
        raise InvalidArgument.of_field("update_mask", "must name content, media or both, and nothing else")
    return Edit(
        content=request.content if "content" in paths else None,
        media=_media(request.media) if "media" in paths else None,
    )


def _media(media: Iterable[post_pb2.MediaReference]) -> tuple[Medium, ...]:
    return tuple(Medium(m.url, m.type, m.width, m.height, m.alt_text) for m in media)


def _counts(counts: Counts) -> post_pb2.EngagementCounts:
    return post_pb2.EngagementCounts(**counts._asdict())


def _post(post: Post) -> post_pb2.Post:
    media = [
        post_pb2.MediaReference(url=m.url, type=m.type, width=m.width, height=m.height, alt_text=m.alt_text)
        for m in post.media
    ]
    return post_pb2.Post(
        id=post.id,
        author_id=post.author_id,
        content=post.content,
        media=media,
        created_at_ms=post.created_at_ms,
        edited_at_ms=post.edited_at_ms,
        reply_to_post_id=post.reply_to,
    )
