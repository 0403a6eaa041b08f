"""Domain errors to gRPC statuses with `google.rpc` details, and back (AIP-193)."""

from collections.abc import Iterator
from typing import Any, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status as _rpc_status

from feedkit import errors
from feedkit.errors import FeedError, FieldViolation

DOMAIN = "feed"

# A status travels in trailers, and peers refuse trailers beyond 8 KiB: the error would be lost, and another one made up
# in its place. The message travels twice, as up to three characters a byte and, like the details, as four for three.
MAX_MESSAGE_BYTES = 800
MAX_DETAIL_BYTES = 160
MAX_VIOLATIONS = 6

rpc_status = cast("Any", _rpc_status)  # published without types

NO_RETRY = ("grpc-retry-pushback-ms", "-1")
"""Tells the caller's channel not to retry. Whoever says that something behind it cannot be reached has tried that already;
were every hop to retry its answer, a read would cost the product of all their attempts."""

_CLASSES: dict[int, type[FeedError]] = {
    cls.code.value: cls
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
_DETAILS_KEY = "grpc-status-details-bin"


def to_status(error: FeedError) -> grpc.Status:
    """The gRPC status of an error, with ErrorInfo and, for fields, BadRequest.

    Texts that are too long for a status are cut short, and only the first few of many violations are named.
    """
    status = status_pb2.Status(code=error.code.value, message=_cut(error.message, MAX_MESSAGE_BYTES))
    metadata = {name: _cut(value, MAX_DETAIL_BYTES) for name, value in error.metadata.items()}
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata))
    if error.violations:
        bad_request = error_details_pb2.BadRequest()
        for field, rule in error.violations[:MAX_VIOLATIONS]:
            bad_request.field_violations.add(
                field=_cut(field, MAX_DETAIL_BYTES), description=_cut(rule, MAX_DETAIL_BYTES)
            )
        status.details.add().Pack(bad_request)
    plain = rpc_status.to_status(status)
    if error.reason != "DEPENDENCY_UNAVAILABLE":
        return plain
    return plain._replace(trailing_metadata=(*plain.trailing_metadata, NO_RETRY))


def _cut(text: str, size: int) -> str:
    """The text in at most `size` bytes of UTF-8. A lone surrogate, which UTF-8 cannot tell, becomes `?`."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= size else data[: size - 3].decode(errors="ignore") + "…"


def from_rpc_error(error: grpc.aio.AioRpcError, dependency: str) -> FeedError:
    """The domain error that a call to `dependency` came back with.

    Whatever carries no reason of ours was not said by a service but by the way to it, and is told apart by its code alone.
    """
    info = error_details_pb2.ErrorInfo()
    violations: list[FieldViolation] = []
    for detail in _details(error):
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
    cls = _CLASSES.get(code.value[0])
    if cls is None:
        return errors.Internal(f"{dependency} failed: {code.name}", **dict(info.metadata))
    return cls(info.reason, error.details() or "", violations=violations, **dict(info.metadata))


def _details(error: grpc.aio.AioRpcError) -> Iterator[Any]:
    """What a status carries. Something between may have changed its code; then its details are of another error."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                return
            if status.code == error.code().value[0]:
                yield from status.details


def _from_transport(error: grpc.aio.AioRpcError, code: grpc.StatusCode, dependency: str) -> FeedError:
    if code is grpc.StatusCode.UNAVAILABLE:
        return errors.Unavailable.of_dependency(dependency)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        # gRPC has one code for a server that is too busy and for a message that no server will ever take.
        if "larger than max" in (error.details() or ""):
            return errors.Overloaded("MESSAGE_TOO_LARGE", f"{dependency}: the message is larger than one may be")
        return errors.Overloaded("OVERLOADED", f"{dependency} is overloaded")
    if code is grpc.StatusCode.CANCELLED:
        return errors.Unavailable.of_dependency(dependency, "the call was cut off")
    return errors.Internal(f"{dependency} failed: {code.name} {error.details()}")
