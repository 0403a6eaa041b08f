"""The contract `feed.hydrate.v1` to the domain and back."""

from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2
from feedkit.errors import InvalidArgument

from hydrate_service.hydration import Hydrator, Outcome, Shown
from hydrate_service.visibility import Surface, Unavailable, Withheld

_REASONS = {
    Withheld.NOT_FOUND: hydrate_pb2.WITHHELD_REASON_NOT_FOUND,
    Withheld.AUTHOR_NOT_FOUND: hydrate_pb2.WITHHELD_REASON_AUTHOR_NOT_FOUND,
    Withheld.AUTHOR_SUSPENDED: hydrate_pb2.WITHHELD_REASON_AUTHOR_SUSPENDED,
    Withheld.BLOCKED: hydrate_pb2.WITHHELD_REASON_BLOCKED,
    Withheld.MUTED: hydrate_pb2.WITHHELD_REASON_MUTED,
}


class HydrateServicer(hydrate_pb2_grpc.HydrateServiceServicer):
    """Serves `HydrateService`."""

    def __init__(self, hydrator: Hydrator[post_pb2.Post]) -> None:
        self._hydrator = hydrator

    async def HydratePosts(
        self, request: hydrate_pb2.HydratePostsRequest, context: object
    ) -> hydrate_pb2.HydratePostsResponse:
        """See the contract."""
        if request.author_ids and len(request.author_ids) != len(request.post_ids):
            raise InvalidArgument.of_field("author_ids", "must be as many as post_ids, or none")
        outcomes = await self._hydrator.hydrate(
            request.post_ids,
            request.author_ids,
            viewer_id=request.viewer_id,
            surface=Surface.FEED if request.surface == hydrate_pb2.SURFACE_FEED else Surface.POST,
        )
        response = hydrate_pb2.HydratePostsResponse()
        for post_id, outcome in outcomes.items():
            hydration = response.hydrations.add()
            hydration.post_id = post_id
            _write(outcome, hydration)
        return response


def _write(outcome: Outcome[post_pb2.Post], hydration: hydrate_pb2.Hydration) -> None:
    match outcome:
        case Shown(post, author_name, counts):
            shown = hydration.post
            shown.post.CopyFrom(post)
            shown.author_name = author_name
            if counts is not None:
                # Assigning sets the message even where all are 0, which is not the same as unset.
                told = shown.counts
                told.likes, told.reposts, told.replies = counts.likes, counts.reposts, counts.replies
        case Withheld():
            hydration.withheld = _REASONS[outcome]
        case Unavailable(dependency):
            hydration.unavailable.dependency = dependency
