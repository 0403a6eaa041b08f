"""Authors, and what is hidden from viewers, from the service `graph`."""

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit import deadline
from feedkit.channel import CALL_SECONDS, Channel
from feedkit.errors import NotFound

from hydrate_service.visibility import Author, Hides

if TYPE_CHECKING:
    from feed.graph.v1.graph_pb2_grpc import GraphServiceAsyncStub


class GraphClient:
    """Calls the service `graph`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(channel)

    async def authors(self, user_ids: Collection[int]) -> Mapping[int, Author]:
        """Those of the users that exist, without the counts that would cost `graph` more, for `truth.SharedReads`."""
        deadline.begin(CALL_SECONDS)  # not that of the request that happened to begin the read
        request = graph_pb2.BatchGetUsersRequest(user_ids=user_ids, view=graph_pb2.USER_VIEW_BASIC)
        response = await self._stub.BatchGetUsers(request)
        suspended = graph_pb2.USER_STANDING_SUSPENDED
        return {user.id: Author(user.id, user.name, user.standing == suspended) for user in response.users}

    async def hides(self, viewer_ids: Collection[int]) -> Mapping[int, Hides]:
        """What is hidden from each of some viewers, for `truth.SharedReads`."""
        deadline.begin(CALL_SECONDS)  # as above
        hides = await asyncio.gather(*map(self._hides, viewer_ids))
        return dict(zip(viewer_ids, hides, strict=True))

    async def _hides(self, viewer_id: int) -> Hides:
        response = await self._stub.GetHiddenAuthors(graph_pb2.GetHiddenAuthorsRequest(viewer_id=viewer_id))
        return Hides(frozenset(response.blocked_ids), frozenset(response.muted_ids), response.more_block)

    async def between(self, viewer_id: int, author_ids: Collection[int]) -> Collection[int]:
        """See `hydration.Blocks`."""
        request = graph_pb2.BatchGetRelationshipsRequest(viewer_id=viewer_id, user_ids=author_ids)
        try:
            response = await self._stub.BatchGetRelationships(request)
        except NotFound:
            return ()  # the viewer was deleted just now, and with them whatever was blocked
        return [one.user_id for one in response.relationships if one.blocking or one.blocked_by]
