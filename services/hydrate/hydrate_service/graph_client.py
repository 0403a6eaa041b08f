"""The names of authors, from the service `graph`."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit import deadline
from feedkit.channel import CALL_SECONDS, Channel

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub


class GraphClient:
    """Loads names, without the counts that would cost `graph` more."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def load(self, user_ids: Collection[int]) -> Mapping[int, str]:
        """The names of those of the users that exist, for `truth.SharedReads`."""
        deadline.begin(CALL_SECONDS)  # not that of the request that happened to begin the read
        request = graph_pb2.BatchGetUsersRequest(user_ids=user_ids, view=graph_pb2.USER_VIEW_BASIC)
        response = await self._stub.BatchGetUsers(request)
        return {user.id: user.name for user in response.users}
