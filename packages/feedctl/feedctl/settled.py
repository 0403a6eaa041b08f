"""Whether a mesh has settled: everything that was acknowledged has reached every timeline. `fanout` itself says so."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import grpc
import grpc.aio
from feed.fanout.v1 import fanout_pb2
from feed.fanout.v1 import fanout_pb2_grpc as _fanout_grpc

if TYPE_CHECKING:
    from feed.fanout.v1.fanout_pb2_grpc import FanoutServiceAsyncStub

ASK_SECONDS = 5.0
PAUSE_SECONDS = 0.05

_AWAY = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
"""What `fanout` says, or is said for it, while a part of the mesh is on its way back."""
# A channel otherwise waits longer and longer before it tries again to reach a process that was killed.
_OPTIONS = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.use_local_subchannel_pool", 1)]

fanout_grpc = cast("Any", _fanout_grpc)


class NotSettled(Exception):
    """The mesh has not settled in time; the message says what there is still to do."""


def _tell_nobody(_left: str) -> None:
    return None


async def settled(target: str, seconds: float = 60.0, tell: Callable[[str], None] = _tell_nobody) -> None:
    """Return when the mesh has settled, whose `fanout` is at the gRPC name `target`.

    `tell` is told what there is still to do, as often as it is looked. Raises NotSettled when the mesh has not settled
    after `seconds`; what is away is waited for as long. Any other refusal of `fanout` is raised as it is,
    grpc.aio.AioRpcError.
    """
    deadline = time.monotonic() + seconds
    async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
        stub: FanoutServiceAsyncStub = fanout_grpc.FanoutServiceStub(channel)
        while True:
            try:
                answer = await stub.GetSettled(fanout_pb2.GetSettledRequest(), timeout=ASK_SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() not in _AWAY:
                    raise
                missing = f"{error.code().name}: {error.details()}"
            else:
                if answer.settled:
                    return
                missing = to_do(answer)
            if time.monotonic() >= deadline:
                raise NotSettled(missing)
            tell(missing)
            await asyncio.sleep(PAUSE_SECONDS)


def to_do(answer: fanout_pb2.GetSettledResponse) -> str:
    """What there is still to do, in words: only what is not 0; empty when the mesh has settled."""
    counts = {
        "in outboxes": answer.outbox_rows,
        "events not handled": answer.lag_events,
        "open chunks": answer.open_chunks,
        "open reconciles": answer.open_reconciles,
        "ms until pulled posts are known": answer.unseen_pulled_ms,
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)
