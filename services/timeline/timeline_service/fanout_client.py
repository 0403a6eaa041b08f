"""What `fanout` is asked for."""

from typing import TYPE_CHECKING

from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feedkit.channel import Channel

if TYPE_CHECKING:
    from feed.fanout.v1.fanout_pb2_grpc import FanoutServiceAsyncStub


class FanoutClient:
    """Calls the service `fanout`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: FanoutServiceAsyncStub = fanout_pb2_grpc.FanoutServiceStub(channel)

    async def rebuild(self, viewer_id: int) -> None:
        """Ask for a viewer's whole timeline to be made anew."""
        await self._stub.Reconcile(fanout_pb2.ReconcileRequest(viewer_id=viewer_id))
