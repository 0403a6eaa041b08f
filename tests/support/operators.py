"""What operators do to accounts of a mesh."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc.aio
from devmesh.mesh import Mesh
from feed.graph.v1 import accounts_pb2, accounts_pb2_grpc

if TYPE_CHECKING:
    from feed.graph.v1.accounts_pb2_grpc import AccountServiceAsyncStub


async def suspend(mesh: Mesh, user: int) -> None:
    """Suspend an account."""
    async with _accounts(mesh) as accounts:
        await accounts.SuspendUser(accounts_pb2.SuspendUserRequest(user_id=user), **_call(mesh))


async def restore(mesh: Mesh, user: int) -> None:
    """Restore a suspended account."""
    async with _accounts(mesh) as accounts:
        await accounts.RestoreUser(accounts_pb2.RestoreUserRequest(user_id=user), **_call(mesh))


async def delete(mesh: Mesh, user: int) -> None:
    """Delete an account for good."""
    async with _accounts(mesh) as accounts:
        await accounts.DeleteUser(accounts_pb2.DeleteUserRequest(user_id=user), **_call(mesh))


@asynccontextmanager
async def _accounts(mesh: Mesh) -> "AsyncGenerator[AccountServiceAsyncStub]":
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["graph"]) as channel:
        yield accounts_pb2_grpc.AccountServiceStub(channel)


def _call(mesh: Mesh) -> "dict[str, object]":
    token = mesh.addresses.operator_token
    # Processes are killed and come back in some tests; all of these calls may be repeated.
    return {"metadata": [("authorization", f"Bearer {token}")], "timeout": 20, "wait_for_ready": True}
