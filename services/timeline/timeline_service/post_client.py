"""The pull query, and the traits of posts, asked of the service `post`."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit.channel import Channel
from feedkit.cursor import MAX_ID

from timeline_service.features import Traits
from timeline_service.source import Stretch

if TYPE_CHECKING:
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub


class PostClient:
    """Calls the service `post`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: PostServiceAsyncStub = post_pb2_grpc.PostServiceStub(channel)

    async def recent(self, authors: Collection[int], position: int, limit: int) -> Stretch:
        """See `pull_source.Pull`. `limit` is 1,000 at most."""
        request = post_pb2.ListRecentByAuthorsRequest(
            author_ids=authors,
            # In this call 0 stands for the top; nobody reads from position 0, below which there is nothing.
            before_post_id=position if position <= MAX_ID else 0,
            limit=limit,
        )
        response = await self._stub.ListRecentByAuthors(request)
        return Stretch(response.post_ids, response.author_ids, response.complete_to_post_id)

    async def traits(self, post_ids: Sequence[int]) -> Mapping[int, Traits]:
        """The traits of those of some posts that stand. `post_ids` are 1,000 at most."""
        response = await self._stub.BatchGetTraits(post_pb2.BatchGetTraitsRequest(post_ids=post_ids))
        return {post.post_id: Traits(post.has_media, post.is_reply, post.topics) for post in response.posts}
