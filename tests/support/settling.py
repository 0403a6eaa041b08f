"""When a mesh has settled: all that was acknowledged has reached every timeline. The mesh itself says so; nobody sleeps."""

import grpc.aio
from devmesh.mesh import Mesh
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feedctl import settled as feedctl_settled


async def settled(mesh: Mesh, seconds: float = 60.0) -> None:
    """Return when the mesh has settled; feedctl.settled.NotSettled, with what there is still to do, when it does not."""
    await feedctl_settled.settled(mesh.addresses.grpc["fanout"], seconds)


async def open_chunks(mesh: Mesh) -> int:
    """How many parts of large fan-outs are not delivered."""
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["fanout"]) as channel:
        fanout = fanout_pb2_grpc.FanoutServiceStub(channel)
        return (await fanout.GetSettled(fanout_pb2.GetSettledRequest(), timeout=5)).open_chunks
