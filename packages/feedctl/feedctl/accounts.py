"""Suspends, restores and deletes accounts, as an operator: `feed.graph.v1.AccountService`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import grpc.aio
from feed.graph.v1 import accounts_pb2
from feed.graph.v1 import accounts_pb2_grpc as _accounts_grpc
from feedkit import status
from feedkit.errors import FeedError

from feedctl.targets import OPERATOR_SETTING, Targets, TargetsError

if TYPE_CHECKING:
    from feed.graph.v1.accounts_pb2_grpc import AccountServiceAsyncStub

SECONDS = 10.0

accounts_grpc = cast("Any", _accounts_grpc)


class AccountError(Exception):
    """The account is as it was, as far as is known; the message says why in one line."""


class Accounts:
    """An operator's client."""

    def __init__(self, targets: Targets) -> None:
        """Raises TargetsError where the address of `graph` or the operators' token is not known."""
        if "graph" not in targets.grpc:
            raise TargetsError("changing accounts needs the gRPC address of `graph`")
        if not targets.operator_token:
            raise TargetsError(
                f"changing accounts needs the operators' token: set {OPERATOR_SETTING}, or operator_token in the state file"
            )
        self._target = targets.grpc["graph"]
        self._operator = (("authorization", f"Bearer {targets.operator_token}"),)

    async def suspend(self, user_id: int) -> None:
        """Suspend an account; one that is suspended already stays so. Raises AccountError."""
        request = accounts_pb2.SuspendUserRequest(user_id=user_id)
        await self._call(user_id, lambda stub: stub.SuspendUser(request, metadata=self._operator, timeout=SECONDS))

    async def restore(self, user_id: int) -> None:
        """Restore a suspended account; any other stays as it is. Raises AccountError."""
        request = accounts_pb2.RestoreUserRequest(user_id=user_id)
        await self._call(user_id, lambda stub: stub.RestoreUser(request, metadata=self._operator, timeout=SECONDS))

    async def delete(self, user_id: int) -> None:
        """Delete an account for good; of one that is deleted already, the rest is erased once more. Raises AccountError."""
        request = accounts_pb2.DeleteUserRequest(user_id=user_id)
        await self._call(user_id, lambda stub: stub.DeleteUser(request, metadata=self._operator, timeout=SECONDS))

    async def _call(self, user_id: int, call: "Callable[[AccountServiceAsyncStub], Awaitable[object]]") -> None:
        async with grpc.aio.insecure_channel(self._target) as channel:
            try:
                await call(accounts_grpc.AccountServiceStub(channel))
            except grpc.aio.AioRpcError as error:
                raise AccountError(self._told(status.from_rpc_error(error, "graph"), user_id)) from error

    def _told(self, error: FeedError, user_id: int) -> str:
        match error.reason:
            case "OPERATOR_REQUIRED":
                return f"graph at {self._target} does not take this operators' token"
            case "USER_NOT_FOUND":
                return f"there is no user {user_id}"
            case "DEPENDENCY_UNAVAILABLE" if error.metadata.get("dependency") == "graph":
                return f"graph cannot be reached at {self._target}"
            case _:
                return error.message
