"""What operators do to accounts of a mesh."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc.aio
from devmesh.mesh import Mesh
from feed.graph.v1 import accounts_pb2, accounts_pb2_grpc
from google.protobuf.message import Message

if TYPE_CHECKING:
    from feed.graph.v1.accounts_pb2_grpc import AccountServiceAsyncStub

SECONDS = 60.0
"""How long an operator tries."""
CALL_SECONDS = 5.0

_AWAY = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
# A channel otherwise waits longer and longer before it tries again to reach a process that was killed.
_OPTIONS = [("grpc.max_reconnect_backoff_ms", 200), ("grpc.use_local_subchannel_pool", 1)]


async def suspend(mesh: Mesh, user: int) -> None:
    """Suspend an account."""
    await _call(mesh, lambda accounts: accounts.SuspendUser, accounts_pb2.SuspendUserRequest(user_id=user))


async def restore(mesh: Mesh, user: int) -> None:
    """Restore a suspended account."""
    await _call(mesh, lambda accounts: accounts.RestoreUser, accounts_pb2.RestoreUserRequest(user_id=user))


async def delete(mesh: Mesh, user: int) -> None:
    """Delete an account for good."""
    await _call(mesh, lambda accounts: accounts.DeleteUser, accounts_pb2.DeleteUserRequest(user_id=user))


async def _call(mesh: Mesh, method: Callable[["AccountServiceAsyncStub"], Any], request: Message) -> None:
    """Call as an operator. Processes are killed and come back in some tests, and all of these calls may be repeated."""
    metadata = [("authorization", f"Bearer {mesh.addresses.operator_token}")]
    give_up = time.monotonic() + SECONDS
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["graph"], options=_OPTIONS) as channel:
        accounts: AccountServiceAsyncStub = accounts_pb2_grpc.AccountServiceStub(channel)
        while True:
            try:
                await method(accounts)(request, metadata=metadata, timeout=CALL_SECONDS, wait_for_ready=True)
                return
            except grpc.aio.AioRpcError as error:
                if error.code() not in _AWAY or time.monotonic() >= give_up:
                    raise
            await asyncio.sleep(0.1)
