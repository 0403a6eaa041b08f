"""Posts and their counts, from the service `post`."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import deadline
from feedkit.channel import CALL_SECONDS, Channel

if TYPE_CHECKING:
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub


class PostClient:
    """Loads posts as the messages they are answered with, so that nothing is unpacked that is only passed on."""

    def __init__(self, channel: Channel) -> None:
        self._stub: PostServiceAsyncStub = post_pb2_grpc.PostServiceStub(channel)

    async def load(self, post_ids: Collection[int]) -> Mapping[int, post_pb2.Post]:
        """Those of the posts that exist and are not deleted, for `truth.SharedReads`."""
        deadline.begin(CALL_SECONDS)  # not that of the request that happened to begin the read
        response = await self._stub.BatchGetPosts(post_pb2.BatchGetPostsRequest(post_ids=post_ids))
        return {post.id: post for post in response.posts}

    async def counts(self, post_ids: Collection[int]) -> Mapping[int, post_pb2.EngagementCounts]:
        """The counts of those of the posts that stand, for `truth.SharedReads`."""
        deadline.begin(CALL_SECONDS)  # as above
        response = await self._stub.BatchGetCounts(post_pb2.BatchGetCountsRequest(post_ids=post_ids))
        return {one.post_id: one.counts for one in response.posts}
