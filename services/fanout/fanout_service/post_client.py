"""The truth about posts, asked of the service `post`."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit.channel import Channel

from fanout_service.timelines import Entry, Recent

if TYPE_CHECKING:
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub


class PostClient:
    """Implements `timelines.Posts` and `erase.Remains`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: PostServiceAsyncStub = post_pb2_grpc.PostServiceStub(channel)

    async def recent(self, author_ids: Collection[int], limit: int) -> Recent:
        """See `timelines.Posts`. At most 5,001 authors and 1,000 posts."""
        request = post_pb2.ListRecentByAuthorsRequest(author_ids=author_ids, limit=limit)
        answer = await self._stub.ListRecentByAuthors(request)
        entries = [Entry(*entry) for entry in zip(answer.post_ids, answer.author_ids, strict=True)]
        return Recent(entries, answer.complete_to_post_id)

    async def erase(self, user_id: int) -> bool:
        """See `erase.Remains`."""
        return (await self._stub.EraseAuthor(post_pb2.EraseAuthorRequest(author_id=user_id))).done
