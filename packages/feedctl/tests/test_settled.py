"""Waiting until a mesh has settled, with a `fanout` that says what the test wants."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feedctl.settled import NotSettled, settled

SETTLED = fanout_pb2.GetSettledResponse(settled=True)
BUSY = fanout_pb2.GetSettledResponse(open_chunks=2)


class Fanout(fanout_pb2_grpc.FanoutServiceServicer):
    """Answers in turn; the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[fanout_pb2.GetSettledResponse | grpc.StatusCode] = [SETTLED]
        self.asked = 0

    async def GetSettled(self, request: fanout_pb2.GetSettledRequest, context: Any) -> fanout_pb2.GetSettledResponse:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, fanout_pb2.GetSettledResponse):
            return answer
        return await context.abort(answer, "as told")

    async def GetStatus(self, request: fanout_pb2.GetStatusRequest, context: Any) -> fanout_pb2.GetStatusResponse:
        return fanout_pb2.GetStatusResponse()

    async def Reconcile(self, request: fanout_pb2.ReconcileRequest, context: Any) -> fanout_pb2.ReconcileResponse:
        return fanout_pb2.ReconcileResponse()


@pytest.fixture
def fanout() -> Fanout:
    return Fanout()


@pytest.fixture
async def target(fanout: Fanout) -> AsyncIterator[str]:
    server = grpc.aio.server()
    fanout_pb2_grpc.add_FanoutServiceServicer_to_server(fanout, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_it_returns_when_the_mesh_has_settled(fanout: Fanout, target: str) -> None:
    fanout.answers = [BUSY, BUSY, SETTLED]
    await settled(target)
    assert fanout.asked == 3


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])
async def test_what_is_on_its_way_back_is_waited_for(fanout: Fanout, target: str, code: grpc.StatusCode) -> None:
    fanout.answers = [code, BUSY, code, SETTLED]
    await settled(target)
    assert fanout.asked == 4


async def test_what_there_is_still_to_do_is_told_in_time(fanout: Fanout, target: str) -> None:
    fanout.answers = [BUSY]
    with pytest.raises(NotSettled, match="2 open chunks"):
        await settled(target, seconds=0.1)


async def test_without_time_it_asks_once(fanout: Fanout, target: str) -> None:
    fanout.answers = [BUSY, SETTLED]
    with pytest.raises(NotSettled):
        await settled(target, seconds=0)
    assert fanout.asked == 1


async def test_a_fault_is_not_waited_for(fanout: Fanout, target: str) -> None:
    fanout.answers = [grpc.StatusCode.INTERNAL, SETTLED]
    with pytest.raises(grpc.aio.AioRpcError):
        await settled(target)


async def test_nobody_there_is_told(target: str) -> None:
    with pytest.raises(NotSettled, match="UNAVAILABLE"):
        await settled("127.0.0.1:1", seconds=0.1)
