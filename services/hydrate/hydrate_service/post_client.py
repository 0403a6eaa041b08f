"""Posts, from the service `post`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit.channel import Channel

if TYPE_CHECKING:
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub


class PostClient:
    """Loads posts as the messages they are answered with, so that nothing is unpacked that is only passed on."""

    def __init__(self, channel: Channel) -> None:
        self._stub: PostServiceAsyncStub = post_pb2_grpc.PostServiceStub(channel)

    async def load(self, post_ids: Sequence[int]) -> Sequence[post_pb2.Post]:
        """See `hydration.Posts`."""
        request = post_pb2.BatchGetPostsRequest(post_ids=post_ids)
        return (await self._stub.BatchGetPosts(request)).posts
