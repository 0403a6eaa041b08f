"""What waits in the outbox of another service, asked of it."""

from typing import TYPE_CHECKING

from feed.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from feedkit.channel import Channel

if TYPE_CHECKING:
    from feed.outbox.v1.outbox_pb2_grpc import OutboxServiceAsyncStub


class OutboxClient:
    """Implements `settlement.Outbox`."""

    def __init__(self, channel: Channel) -> None:
        self._stub: OutboxServiceAsyncStub = outbox_pb2_grpc.OutboxServiceStub(channel)

    async def rows(self) -> int:
        """See `settlement.Outbox`."""
        return (await self._stub.GetBacklog(outbox_pb2.GetBacklogRequest())).rows
