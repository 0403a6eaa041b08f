"""Errors as problem documents (RFC 9457): one shape, whatever went wrong and wherever.

The `type` is always `about:blank`: the title is that of the status, and `reason` is what programs branch on. A reason is
the name of a `feed.common.v1.ErrorReason`, or one of the few below that only HTTP knows.
"""

import logging
import math
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from feedkit import errors, telemetry
from feedkit.errors import Code, FeedError, FieldViolation
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.answers import PRIVATE, Answer, Header, encode

logger = logging.getLogger(__name__)

PROBLEM_JSON: Header = (b"content-type", b"application/problem+json")
CHALLENGE: Header = (b"www-authenticate", b'X-User-Id realm="development"')
RETRY_SECONDS = 1
"""What `Retry-After` says where a service gave no advice of its own."""

ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND"
METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
MALFORMED_BODY = "MALFORMED_BODY"
MALFORMED_REQUEST = "MALFORMED_REQUEST"
UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
REQUEST_TIMEOUT = "REQUEST_TIMEOUT"

_STATUSES: Mapping[Code, HTTPStatus] = {
    Code.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    Code.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    Code.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    Code.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Code.FAILED_PRECONDITION: HTTPStatus.CONFLICT,
    Code.ABORTED: HTTPStatus.CONFLICT,
    Code.RESOURCE_EXHAUSTED: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    # Not 504: from outside there is one system, and it was too slow.
    Code.DEADLINE_EXCEEDED: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_STATUSES_OF_REASONS: Mapping[str, HTTPStatus] = {
    # These can never succeed as they are, whatever becomes of the state: no conflict, but a wrong request.
    "IDEMPOTENCY_KEY_REUSED": HTTPStatus.UNPROCESSABLE_ENTITY,
    "CANNOT_FOLLOW_SELF": HTTPStatus.UNPROCESSABLE_ENTITY,
    "CANNOT_BLOCK_SELF": HTTPStatus.UNPROCESSABLE_ENTITY,
    "CANNOT_MUTE_SELF": HTTPStatus.UNPROCESSABLE_ENTITY,
    "MESSAGE_TOO_LARGE": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
}
_DETAILS: Mapping[str, str] = {
    "DEPENDENCY_UNAVAILABLE": "something that the answer needs cannot be reached; try again later",
    "IDS_UNAVAILABLE": "no id for a new post can be had just now; try again later",
    "OVERLOADED": "as much as can be done is being done; try again later",
    "DEADLINE_EXCEEDED": "the answer was not ready in time; try again later",
}
_FAULT_OF_OURS = "an error of ours; it is logged under this trace id"

_PUBLIC_NAMES: Mapping[str, str] = {
    "actor_id": "X-User-Id",
    "viewer_id": "X-User-Id",
    "author_id": "id",
    "blocked_id": "id",
    "favourite_id": "id",
    "followee_id": "id",
    "muted_id": "id",
    "post_id": "id",
    "user_id": "id",
    "followee_ids": "userIds",
    "post_ids": "ids",
    "user_ids": "ids",
    "page_size": "limit",
    "page_token": "cursor",
    "idempotency_key": "Idempotency-Key",
    "reply_to_post_id": "replyTo",
}
_PUBLIC_NAMES_OF_MEMBERS: Mapping[str, str] = {
    "seen_in": "view",
}
_FIRST_NAME = re.compile(r"^[a-z_]+")
_SNAKE_CASE = re.compile(r"[a-z]+(?:_[a-z]+)+")
_LEADING_FIELD = re.compile(r"^[a-z_]+(?:\[[0-9]+\])?(?:\.[a-z_]+)*(?=: )")
# The fields that name the acting user; `author_id` does so in CreatePost, the only call that looks its author up.
_ACTING_USER = frozenset(("actor_id", "viewer_id", "author_id"))


class Problem(Exception):
    """An answer that says what is wrong. `violations` name parameters and body members as the public knows them."""

    def __init__(
        self,
        status: HTTPStatus,
        reason: str,
        detail: str,
        violations: Sequence[FieldViolation] = (),
        headers: Sequence[Header] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.violations = violations
        self.headers = headers

    def answer(self) -> Answer:
        """The response, with the id of the current trace."""
        document: dict[str, object] = {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            "reason": self.reason,
        }
        if self.violations:
            document["errors"] = [{"field": field, "rule": rule} for field, rule in self.violations]
        document["traceId"] = telemetry.trace_id()
        return Answer(self.status, encode(document), (PROBLEM_JSON, PRIVATE, *self.headers))


def malformed_body(rule: str, field: str = "body") -> Problem:
    """400: the body, or the member of it that `field` names, is not what it must be."""
    return Problem(HTTPStatus.BAD_REQUEST, MALFORMED_BODY, f"{field}: {rule}", violations=[FieldViolation(field, rule)])


def unknown_acting_user() -> Problem:
    """401: the identity is well-formed and names nobody."""
    violation = FieldViolation("X-User-Id", "names no user")
    return Problem(
        HTTPStatus.UNAUTHORIZED, "UNAUTHENTICATED", "X-User-Id names no user", [violation], headers=[CHALLENGE]
    )


@contextmanager
def about_oneself() -> Generator[None]:
    """Within it a user who is not found is the acting one, whichever field named them."""
    try:
        yield
    except errors.NotFound as error:
        if error.reason == "USER_NOT_FOUND":
            raise unknown_acting_user() from None
        raise


@contextmanager
def about_member(name: str) -> Generator[None]:
    """Within it a post that is not found is the one that a member of the body names."""
    try:
        yield
    except errors.NotFound as error:
        if error.reason == "POST_NOT_FOUND":
            violation = FieldViolation(name, "names no post")
            raise Problem(HTTPStatus.NOT_FOUND, error.reason, f"{name}: names no post", [violation]) from None
        raise


def public_name(field: str) -> str:
    """The public name of a request field of a service: `media[0].alt_text` → `media[0].altText`.

    What a name stands for depends on where it is: the `post_id` of a request is the `id` in a path, that of an impression
    is a member of its own.
    """
    first = _FIRST_NAME.match(field)
    if first is None:
        return field
    name, path = first[0], field[first.end() :]
    members = _SNAKE_CASE.sub(lambda match: _PUBLIC_NAMES_OF_MEMBERS.get(match[0]) or _camel_case(match[0]), path)
    return (_PUBLIC_NAMES.get(name) or _camel_case(name)) + members


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def of(error: FeedError) -> Problem:
    """The problem that an error of the mesh is to the public."""
    if error.reason == "USER_NOT_FOUND" and error.metadata.get("field") in _ACTING_USER:
        return unknown_acting_user()
    status = _STATUSES_OF_REASONS.get(error.reason) or _STATUSES[error.code]
    violations = [FieldViolation(public_name(field), rule) for field, rule in error.violations]
    return Problem(status, error.reason, _detail(error, status, violations), violations, _headers(error, status))


def _detail(error: FeedError, status: HTTPStatus, violations: Sequence[FieldViolation]) -> str:
    # What is behind a failure of ours is for our logs.
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _DETAILS.get(error.reason, _FAULT_OF_OURS)
    if violations:
        return "; ".join(f"{field}: {rule}" for field, rule in violations)
    return _LEADING_FIELD.sub(lambda match: public_name(match[0]), error.message)


def _headers(error: FeedError, status: HTTPStatus) -> list[Header]:
    if status == HTTPStatus.UNAUTHORIZED:
        return [CHALLENGE]
    if status == HTTPStatus.SERVICE_UNAVAILABLE or isinstance(error, errors.Aborted):
        advice = error.metadata.get("retry_after_ms", "")
        seconds = math.ceil(int(advice) / 1000) if advice.isdecimal() else RETRY_SECONDS
        return [(b"retry-after", b"%d" % max(seconds, RETRY_SECONDS))]
    return []


class Problems:
    """The ASGI layer that turns every error into its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; nothing but cancellation is raised."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            await _problem(error).answer().send(send)


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if not isinstance(error, FeedError):
        logger.exception("unforeseen error")
        error = errors.Internal()
    elif isinstance(error, errors.Internal):
        logger.error("%s", error, exc_info=error)
    problem = of(error)
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        logger.warning("unavailable: %s", error)
    return problem
