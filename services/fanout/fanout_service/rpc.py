"""The contract `feed.fanout.v1` to the domain and back."""

from collections.abc import Awaitable, Callable, Mapping

from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp

from fanout_service.attempts import NOT_NOW
from fanout_service.celebrity_line import Cause
from fanout_service.events import Wish
from fanout_service.lag_client import LagClient
from fanout_service.line_in_force import LineInForce
from fanout_service.settlement import Settlement, Work
from fanout_service.wishes import Wishes

DELIVERY = (Work.POST_EVENTS, Work.GRAPH_EVENTS, Work.CHUNKS)
"""The work whose lag a post meets on its way to a timeline."""
_CAUSES: Mapping[Cause, fanout_pb2.ThresholdCause.ValueType] = {
    Cause.CONFIGURED: fanout_pb2.THRESHOLD_CAUSE_CONFIGURED,
    Cause.LAG: fanout_pb2.THRESHOLD_CAUSE_LAG,
    Cause.RECOVERING: fanout_pb2.THRESHOLD_CAUSE_RECOVERING,
}


class FanoutServicer(fanout_pb2_grpc.FanoutServiceServicer):
    """Serves `FanoutService`."""

    def __init__(
        self,
        settlement: Settlement,
        lag: LagClient,
        wishes: Wishes,
        line: LineInForce,
        leader: Callable[[], Awaitable[str]],
        *,
        configured_threshold: int,
    ) -> None:
        """`leader` tells which process leads, empty where none does; it raises one of NOT_NOW where nobody knows."""
        self._settlement = settlement
        self._lag = lag
        self._wishes = wishes
        self._line = line
        self._leader = leader
        self._configured_threshold = configured_threshold

    async def GetStatus(self, request: fanout_pb2.GetStatusRequest, context: object) -> fanout_pb2.GetStatusResponse:
        """See the contract."""
        lag_ms, lag_events = await self._lag.oldest_ms(*DELIVERY), await self._lag.of(*DELIVERY)
        leader = await self._leader_and_line()
        line = self._line.line
        since = Timestamp()
        since.FromMilliseconds(line.since_ms)
        return fanout_pb2.GetStatusResponse(
            lag_ms=lag_ms,
            lag_events=lag_events,
            celebrity_threshold=line.threshold,
            configured_celebrity_threshold=self._configured_threshold,
            threshold_since=since,
            threshold_cause=_CAUSES[line.cause],
            threshold_leader=leader,
            engagement_lag_events=await self._lag.of(Work.ENGAGEMENT_EVENTS),
        )

    async def _leader_and_line(self) -> str:
        """Who leads, with the line looked up at the same time, so that all processes answer alike."""
        try:
            await self._line.refresh()
            return await self._leader()
        except NOT_NOW:
            return ""

    async def GetSettled(self, request: fanout_pb2.GetSettledRequest, context: object) -> fanout_pb2.GetSettledResponse:
        """See the contract."""
        progress = await self._settlement.progress()
        return fanout_pb2.GetSettledResponse(settled=progress.is_settled, **progress._asdict())

    async def Reconcile(self, request: fanout_pb2.ReconcileRequest, context: object) -> fanout_pb2.ReconcileResponse:
        """See the contract."""
        await self._wishes.leave([Wish(request.viewer_id, request.author_id)])
        return fanout_pb2.ReconcileResponse()
