"""Errors of the mesh as problem documents."""

import json
from typing import Any

import pytest
from feedkit import errors
from feedkit.errors import FeedError, FieldViolation, InvalidArgument
from gateway.problems import Problem, Problems
from starlette.types import Message, Receive, Scope, Send

from gateway import problems


def document(error: FeedError) -> dict[str, Any]:
    return json.loads(problems.of(error).answer().body)


def headers(error: FeedError) -> dict[bytes, bytes]:
    return dict(problems.of(error).answer().headers)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidArgument.of_field("limit", "is wrong"), 400),
        (errors.Unauthenticated("UNAUTHENTICATED", "who?"), 401),
        (errors.PermissionDenied("NOT_THE_AUTHOR", "no"), 403),
        (errors.post_not_found(1), 404),
        (errors.user_not_found(1, "user_id"), 404),
        (errors.user_not_found(1, "followee_id"), 404),
        (errors.user_not_found(1, "blocked_id"), 404),
        (errors.user_not_found(1, "muted_id"), 404),
        (errors.user_not_found(1, "favourite_id"), 404),
        (errors.user_not_found(1, "viewer_id"), 401),
        (errors.user_not_found(1, "actor_id"), 401),
        (errors.user_not_found(1, "author_id"), 401),
        (errors.FailedPrecondition("FOLLOWING_LIMIT_REACHED", "full"), 409),
        (errors.FailedPrecondition("CANNOT_FOLLOW_SELF", "no"), 422),
        (errors.FailedPrecondition("IDEMPOTENCY_KEY_REUSED", "no"), 422),
        (errors.FailedPrecondition("CANNOT_BLOCK_SELF", "no"), 422),
        (errors.FailedPrecondition("CANNOT_MUTE_SELF", "no"), 422),
        (errors.FailedPrecondition("BLOCKING_LIMIT_REACHED", "full"), 409),
        (errors.FailedPrecondition("MUTING_LIMIT_REACHED", "full"), 409),
        (errors.FailedPrecondition("NOT_FOLLOWING", "no"), 409),
        (errors.FailedPrecondition("FAVOURITES_LIMIT_REACHED", "full"), 409),
        (errors.FailedPrecondition("BLOCKED", "no"), 409),
        (errors.FailedPrecondition("USER_SUSPENDED", "no"), 409),
        (errors.FailedPrecondition("USER_NOT_DELETED", "no"), 409),
        (errors.PermissionDenied("ACCOUNT_SUSPENDED", "no"), 403),
        (errors.PermissionDenied("OPERATOR_REQUIRED", "no"), 403),
        (errors.Aborted("IDEMPOTENCY_KEY_IN_FLIGHT", "wait"), 409),
        (errors.Overloaded("OVERLOADED", "busy"), 503),
        (errors.Overloaded("MESSAGE_TOO_LARGE", "large"), 413),
        (errors.Unavailable.of_dependency("graph"), 503),
        (errors.DeadlineExceeded(), 503),
        (errors.Internal("secret"), 500),
    ],
)
def test_every_error_has_its_status(error: FeedError, status: int) -> None:
    assert document(error)["status"] == problems.of(error).status == status


@pytest.mark.parametrize(
    ("field", "public"),
    [
        ("limit", "limit"),
        ("X-User-Id", "X-User-Id"),
        ("page_token", "cursor"),
        ("page_size", "limit"),
        ("followee_id", "id"),
        ("blocked_id", "id"),
        ("muted_id", "id"),
        ("followee_ids[3]", "userIds[3]"),
        ("post_ids[0]", "ids[0]"),
        ("media[0].alt_text", "media[0].altText"),
        ("idempotency_key", "Idempotency-Key"),
        ("reply_to_post_id", "replyTo"),
        ("favourite_id", "id"),
        ("post_id", "id"),
        ("impressions[3].post_id", "impressions[3].postId"),
        ("impressions[3].dwell_ms", "impressions[3].dwellMs"),
        ("impressions[3].seen_in", "impressions[3].view"),
        ("content", "content"),
    ],
)
def test_fields_bear_their_public_names(field: str, public: str) -> None:
    assert document(InvalidArgument.of_field(field, "is wrong"))["errors"] == [{"field": public, "rule": "is wrong"}]


def test_every_broken_rule_is_told() -> None:
    error = InvalidArgument(
        "INVALID_FIELD",
        "both",
        violations=[FieldViolation("page_token", "is long"), FieldViolation("name", "is blank")],
    )
    assert document(error)["detail"] == "cursor: is long; name: is blank"
    assert len(document(error)["errors"]) == 2


def test_the_detail_of_a_missing_user_names_the_public_parameter() -> None:
    assert document(errors.user_not_found(7, "followee_id"))["detail"] == "id: there is no user 7"


def test_about_oneself_whoever_is_not_found_is_the_acting_user() -> None:
    with pytest.raises(Problem) as problem, problems.about_oneself():
        raise errors.user_not_found(7, "user_id")
    assert problem.value.status == 401


def test_about_oneself_other_errors_are_what_they_are() -> None:
    with pytest.raises(errors.NotFound), problems.about_oneself():
        raise errors.post_not_found(7)


def test_about_a_member_a_post_that_is_not_found_is_the_one_that_it_names() -> None:
    with pytest.raises(Problem) as problem, problems.about_member("replyTo"):
        raise errors.post_not_found(7)
    assert (problem.value.status, problem.value.reason) == (404, "POST_NOT_FOUND")
    assert problem.value.violations == [FieldViolation("replyTo", "names no post")]


def test_about_a_member_other_errors_are_what_they_are() -> None:
    with pytest.raises(errors.NotFound), problems.about_member("replyTo"):
        raise errors.user_not_found(7, "author_id")


def test_a_document_has_the_members_of_one_shape() -> None:
    assert document(errors.post_not_found(5)) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "id: there is no post 5",
        "reason": "POST_NOT_FOUND",
        "traceId": "0" * 32,
    }


def test_the_media_type_is_that_of_problems() -> None:
    assert headers(errors.post_not_found(5))[b"content-type"] == b"application/problem+json"


@pytest.mark.parametrize(
    "error",
    [errors.Internal("10.0.0.7 said no"), errors.Unavailable.of_dependency("postgres", "10.0.0.7 said no")],
)
def test_what_is_behind_our_own_failures_is_not_told(error: FeedError) -> None:
    assert "10.0.0.7" not in str(document(error))


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (errors.Unavailable.of_dependency("graph"), b"1"),
        (errors.Overloaded("OVERLOADED", "busy", retry_after_ms=2500), b"3"),
        (errors.Overloaded("OVERLOADED", "busy", retry_after_ms="soon"), b"1"),
        (errors.Aborted("IDEMPOTENCY_KEY_IN_FLIGHT", "wait"), b"1"),
    ],
)
def test_what_passes_says_when_to_come_back(error: FeedError, seconds: bytes) -> None:
    assert headers(error)[b"retry-after"] == seconds


@pytest.mark.parametrize("error", [errors.Unauthenticated("UNAUTHENTICATED", ""), errors.user_not_found(1, "actor_id")])
def test_401_carries_a_challenge(error: FeedError) -> None:
    assert b"X-User-Id" in headers(error)[b"www-authenticate"]


async def test_an_unforeseen_error_is_logged_and_answered_without_a_word_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ZeroDivisionError("secret")

    async def receive() -> Message:
        raise AssertionError

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await Problems(broken)({"type": "http"}, receive, send)
    assert sent[0]["status"] == 500
    assert b"secret" not in sent[1]["body"]
    assert "secret" in caplog.text
