"""Domain errors to gRPC statuses with `google.rpc` details, and back (AIP-193)."""

from typing import Any, cast

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status as _rpc_status

from feedkit import errors
from feedkit.errors import Code, FeedError, FieldViolation

DOMAIN = "feed"

rpc_status = cast("Any", _rpc_status)  # published without types

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_CLASSES: dict[Code, type[FeedError]] = {
    cls.code: cls
    for cls in (
        errors.Aborted,
        errors.FailedPrecondition,
        errors.InvalidArgument,
        errors.NotFound,
        errors.Overloaded,
        errors.PermissionDenied,
        errors.Unauthenticated,
        errors.Unavailable,
    )
}


def to_status(error: FeedError) -> grpc.Status:
    """The gRPC status of an error, with ErrorInfo and, for fields, BadRequest."""
    status = status_pb2.Status(code=error.code.value, message=error.message)
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    status.details.add().Pack(info)
    if error.violations:
        bad_request = error_details_pb2.BadRequest()
        for field, rule in error.violations:
            bad_request.field_violations.add(field=field, description=rule)
        status.details.add().Pack(bad_request)
    return rpc_status.to_status(status)


def from_rpc_error(error: grpc.aio.AioRpcError, dependency: str) -> FeedError:
    """The domain error that a call to `dependency` came back with.

    Whatever carries no reason of ours was not said by a service but by the way to it, and is told apart by its code alone.
    """
    status = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    violations: list[FieldViolation] = []
    for detail in status.details if status else ():
        bad_request = error_details_pb2.BadRequest()
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Unpack(bad_request):
            violations = [FieldViolation(v.field, v.description) for v in bad_request.field_violations]
    code = error.code()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceeded(f"{dependency} did not answer in time")
    if info.domain != DOMAIN:
        return _from_transport(error, code, dependency)
    cls = _CLASSES.get(Code(code.value[0]))
    if cls is None:
        return errors.Internal(f"{dependency} failed", **dict(info.metadata))
    return cls(info.reason, error.details() or "", violations=violations, **dict(info.metadata))


def _from_transport(error: grpc.aio.AioRpcError, code: grpc.StatusCode, dependency: str) -> FeedError:
    if code is grpc.StatusCode.UNAVAILABLE:
        return errors.Unavailable.of_dependency(dependency)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return errors.Overloaded("OVERLOADED", f"{dependency} is overloaded")
    if code is grpc.StatusCode.CANCELLED:
        return errors.Unavailable.of_dependency(dependency, "the call was cut off")
    return errors.Internal(f"{dependency} failed: {code.name} {error.details()}")


def grpc_code(code: Code) -> grpc.StatusCode:
    """The same code as gRPC spells it."""
    return _CODES[code.value]
