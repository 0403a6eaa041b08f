"""The contract `feed.fanout.v1` to the domain and back."""

import time

from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp

from fanout_service.events import Wish
from fanout_service.follow_events import Wishes
from fanout_service.lag_client import LagClient
from fanout_service.settlement import Settlement, Work

DELIVERY = (Work.POST_EVENTS, Work.FOLLOW_EVENTS, Work.CHUNKS)
"""The work whose lag a post meets on its way to a timeline."""


class FanoutServicer(fanout_pb2_grpc.FanoutServiceServicer):
    """Serves `FanoutService`."""

    def __init__(self, settlement: Settlement, lag: LagClient, wishes: Wishes, *, threshold: int) -> None:
        """`threshold`: the follower count from which an author is pulled, which stays what it is."""
        self._settlement = settlement
        self._lag = lag
        self._wishes = wishes
        self._threshold = threshold
        self._since = Timestamp(seconds=int(time.time()))

    async def GetStatus(self, request: fanout_pb2.GetStatusRequest, context: object) -> fanout_pb2.GetStatusResponse:
        """See the contract."""
        return fanout_pb2.GetStatusResponse(
            lag_ms=await self._lag.oldest_ms(*DELIVERY),
            lag_events=await self._lag.of(*DELIVERY),
            celebrity_threshold=self._threshold,
            configured_celebrity_threshold=self._threshold,
            threshold_since=self._since,
            threshold_cause=fanout_pb2.THRESHOLD_CAUSE_CONFIGURED,
        )

    async def GetSettled(self, request: fanout_pb2.GetSettledRequest, context: object) -> fanout_pb2.GetSettledResponse:
        """See the contract."""
        progress = await self._settlement.progress()
        return fanout_pb2.GetSettledResponse(settled=progress.is_settled, **progress._asdict())

    async def Reconcile(self, request: fanout_pb2.ReconcileRequest, context: object) -> fanout_pb2.ReconcileResponse:
        """See the contract."""
        await self._wishes.leave([Wish(request.viewer_id, request.author_id)])
        return fanout_pb2.ReconcileResponse()
