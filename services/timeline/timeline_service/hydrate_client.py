"""Posts as their viewer may see them, from the service `hydrate`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit.channel import Channel

from timeline_service.entries import Entry
from timeline_service.hydration import Outcome, Shown, Unavailable, Withheld

if TYPE_CHECKING:
    from feed.hydrate.v1.hydrate_pb2_grpc import HydrateServiceAsyncStub

_WITHHELD = {
    hydrate_pb2.WITHHELD_REASON_AUTHOR_NOT_FOUND: Withheld(with_its_author=True),
    hydrate_pb2.WITHHELD_REASON_AUTHOR_SUSPENDED: Withheld(with_its_author=True),
    hydrate_pb2.WITHHELD_REASON_BLOCKED: Withheld(with_its_author=True),
    hydrate_pb2.WITHHELD_REASON_MUTED: Withheld(with_its_author=True),
}
_WITHHELD_ALONE = Withheld()
"""For every other reason, also of a later version of the contract."""


class HydrateClient:
    """Calls the service `hydrate`. Posts stay the messages that they came as."""

    def __init__(self, channel: Channel) -> None:
        self._stub: HydrateServiceAsyncStub = hydrate_pb2_grpc.HydrateServiceStub(channel)

    async def hydrate(self, viewer_id: int, entries: Sequence[Entry]) -> Sequence[Outcome[hydrate_pb2.HydratedPost]]:
        """See `hydration.Hydrator`."""
        request = hydrate_pb2.HydratePostsRequest(
            viewer_id=viewer_id,
            post_ids=[entry.post_id for entry in entries],
            author_ids=[entry.author_id for entry in entries],
            surface=hydrate_pb2.SURFACE_FEED,
        )
        response = await self._stub.HydratePosts(request)
        return [_outcome(hydration) for hydration in response.hydrations]


def _outcome(hydration: hydrate_pb2.Hydration) -> Outcome[hydrate_pb2.HydratedPost]:
    match hydration.WhichOneof("outcome"):
        case "post":
            return Shown(hydration.post)
        case "withheld":
            return _WITHHELD.get(hydration.withheld, _WITHHELD_ALONE)
        case "unavailable":
            return Unavailable(hydration.unavailable.dependency)
        case None:
            # An outcome of a later version of the contract. Not known here, so not shown, and not passed over either.
            return Unavailable("hydrate")
