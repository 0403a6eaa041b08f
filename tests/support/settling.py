"""When a mesh has settled: all that was acknowledged has reached every timeline. The mesh itself says so; nobody sleeps."""

import asyncio
import time

import grpc
import grpc.aio
from devmesh.mesh import Mesh
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from google.protobuf import json_format

SECONDS = 60.0
"""The longest that it takes, though processes were killed just before."""

_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
# Without it a channel waits longer and longer before it tries again to reach a process that was killed.
_OPTIONS = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.use_local_subchannel_pool", 1)]


async def settled(mesh: Mesh, seconds: float = SECONDS) -> None:
    """Return when the mesh has settled; AssertionError with what it still waits for when it has not after `seconds`."""
    deadline = time.monotonic() + seconds
    said = "nothing yet"
    while time.monotonic() < deadline:
        try:
            answer = await unsettled(mesh)
        except grpc.aio.AioRpcError as error:
            # A part of the mesh is on its way back, and then nobody knows.
            if error.code() not in _AWAY:
                raise
            said = f"{error.code().name}: {error.details()}"
        else:
            if answer.settled:
                return
            said = str(json_format.MessageToDict(answer))
        await asyncio.sleep(0.05)
    raise AssertionError(f"not settled after {seconds:g} s: {said}")


async def unsettled(mesh: Mesh) -> fanout_pb2.GetSettledResponse:
    """What a mesh waits for, as it counts itself."""
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["fanout"], options=_OPTIONS) as channel:
        return await fanout_pb2_grpc.FanoutServiceStub(channel).GetSettled(
            fanout_pb2.GetSettledRequest(), timeout=5, wait_for_ready=True
        )
