"""The errors of the mesh, free of any transport.

Domain code raises them; `feedkit.status` turns them into gRPC statuses with `google.rpc.ErrorInfo` and back, and the
gateway turns them into problem documents. `reason` is the name of a `feed.common.v1.ErrorReason` without its prefix, so
callers branch on it; the message is for people.
"""

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar, NamedTuple


class Code(Enum):
    """The canonical status codes that this mesh answers with; the values are gRPC's."""

    DEADLINE_EXCEEDED = 4
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class FieldViolation(NamedTuple):
    """A field of a request, as a path such as `media[0].url`, and the rule that it breaks."""

    field: str
    rule: str


class FeedError(Exception):
    """A call that did not succeed, and why."""

    code: ClassVar[Code]

    def __init__(
        self, reason: str, message: str, *, violations: Sequence[FieldViolation] = (), **metadata: str | int
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = tuple(violations)
        self.metadata = {name: str(value) for name, value in metadata.items()}


class InvalidArgument(FeedError):
    """The request breaks a rule that does not depend on any state."""

    code = Code.INVALID_ARGUMENT

    @classmethod
    def of_field(cls, field: str, rule: str, *, reason: str = "INVALID_FIELD") -> "InvalidArgument":
        """An error about one field: `rule` completes the sentence "<field> ..."."""
        return cls(reason, f"{field}: {rule}", violations=[FieldViolation(field, rule)])


class NotFound(FeedError):
    """What the request names does not exist."""

    code = Code.NOT_FOUND


class PermissionDenied(FeedError):
    """The acting user may not do this."""

    code = Code.PERMISSION_DENIED


class FailedPrecondition(FeedError):
    """The state forbids it; the same request will go on failing until the state is changed."""

    code = Code.FAILED_PRECONDITION


class Aborted(FeedError):
    """Something else is in the way just now; the caller may start again."""

    code = Code.ABORTED


class Unauthenticated(FeedError):
    """Nobody, or nobody we know, is asking."""

    code = Code.UNAUTHENTICATED


class Overloaded(FeedError):
    """Shed: as much as this process can do is being done."""

    code = Code.RESOURCE_EXHAUSTED


class Unavailable(FeedError):
    """Something that the answer needs cannot be reached; worth a retry."""

    code = Code.UNAVAILABLE

    @classmethod
    def of_dependency(cls, dependency: str, why: object = "cannot be reached") -> "Unavailable":
        """An error about a store or service by its short name, such as `postgres` or `graph`."""
        return cls("DEPENDENCY_UNAVAILABLE", f"{dependency}: {why}", dependency=dependency)


class DeadlineExceeded(FeedError):
    """The deadline passed before the answer was ready."""

    code = Code.DEADLINE_EXCEEDED

    def __init__(self, message: str = "the deadline passed before the answer was ready") -> None:
        super().__init__("DEADLINE_EXCEEDED", message)


class Internal(FeedError):
    """A fault of ours. Raised for broken promises between services; anything else unforeseen becomes one."""

    code = Code.INTERNAL

    def __init__(self, message: str = "internal error", **metadata: str | int) -> None:
        super().__init__("INTERNAL", message, violations=(), **metadata)


def user_not_found(user_id: int, field: str) -> NotFound:
    """No such user. `field` is the request field that named it, so that a caller knows which of two it was."""
    return NotFound("USER_NOT_FOUND", f"{field}: there is no user {user_id}", user_id=user_id, field=field)


def post_not_found(post_id: int) -> NotFound:
    """No such post, or it has been deleted."""
    return NotFound("POST_NOT_FOUND", f"post_id: there is no post {post_id}", post_id=post_id)
