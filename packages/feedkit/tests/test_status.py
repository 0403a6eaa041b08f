"""An error that crosses the wire says on the other side what it said on this one."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from feed.common.v1.common_pb2 import ErrorReason
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import channel, errors, status
from feedkit.errors import Code, FeedError, FieldViolation
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

SERVICE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
DETAILS = "grpc-status-details-bin"
Serve = Callable[..., Awaitable[str]]


def call_error(code: grpc.StatusCode, details: str = "", trailers: Any = ()) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details=details)


def over_the_wire(error: FeedError) -> FeedError:
    """The error as the caller of `graph` gets it."""
    sent = status.to_status(error)
    return status.from_rpc_error(
        call_error(sent.code, sent.details or "", sent.trailing_metadata or ()), dependency="graph"
    )


SENT = [
    errors.Aborted("IDEMPOTENCY_KEY_IN_FLIGHT", "the first is still running"),
    errors.FailedPrecondition("FOLLOWING_LIMIT_REACHED", "no more than 5,000", limit=5000),
    errors.InvalidArgument.of_field("media[0].url", "must be a URL"),
    errors.user_not_found(17, "followee_id"),
    errors.post_not_found(18),
    errors.Overloaded("OVERLOADED", "too much", retry_after_ms=250),
    errors.PermissionDenied("NOT_THE_AUTHOR", "only its author", post_id=19),
    errors.Unauthenticated("UNAUTHENTICATED", "who are you?"),
    errors.Unavailable.of_dependency("postgres"),
]


@pytest.mark.parametrize("sent", SENT, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_whole(sent: FeedError) -> None:
    got = over_the_wire(sent)
    assert type(got) is type(sent)
    assert (got.reason, got.message, got.metadata, got.violations) == (
        sent.reason,
        sent.message,
        sent.metadata,
        sent.violations,
    )


def test_every_class_of_error_is_tried_above_or_below() -> None:
    assert {type(error) for error in SENT} | {errors.DeadlineExceeded, errors.Internal} == set(
        FeedError.__subclasses__()
    )


@pytest.mark.parametrize("error", [*SENT, errors.DeadlineExceeded(), errors.Internal()], ids=lambda e: e.reason)
def test_every_reason_is_in_the_contract(error: FeedError) -> None:
    assert f"ERROR_REASON_{error.reason}" in ErrorReason.keys()  # noqa: SIM118 — an enum's wrapper is no mapping


def test_a_deadline_that_passed_there_names_who_was_late() -> None:
    got = over_the_wire(errors.DeadlineExceeded("PostgreSQL did not answer in time"))
    assert isinstance(got, errors.DeadlineExceeded)
    assert got.message == "graph did not answer in time"


def test_a_fault_of_theirs_keeps_the_trace_id_and_names_them() -> None:
    got = over_the_wire(errors.Internal(trace_id="abc"))
    assert isinstance(got, errors.Internal)
    assert (got.message, got.metadata) == ("graph failed: INTERNAL", {"trace_id": "abc"})


@pytest.mark.parametrize("code", list(Code))
def test_codes_are_those_of_grpc(code: Code) -> None:
    assert grpc.StatusCode[code.name].value[0] == code.value
    assert code.name == code_pb2.Code.Name(code.value)


@pytest.mark.parametrize(
    ("code", "details", "expected", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Connection refused", errors.Unavailable, "DEPENDENCY_UNAVAILABLE"),
        (grpc.StatusCode.CANCELLED, "", errors.Unavailable, "DEPENDENCY_UNAVAILABLE"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!", errors.Overloaded, "OVERLOADED"),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "CLIENT: Received message larger than max (9 vs. 8)",
            errors.Overloaded,
            "MESSAGE_TOO_LARGE",
        ),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", errors.DeadlineExceeded, "DEADLINE_EXCEEDED"),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", errors.Internal, "INTERNAL"),
        (grpc.StatusCode.UNKNOWN, "", errors.Internal, "INTERNAL"),
        (grpc.StatusCode.INVALID_ARGUMENT, "said by a proxy", errors.Internal, "INTERNAL"),
    ],
)
def test_what_carries_no_reason_of_ours_is_told_apart_by_its_code(
    code: grpc.StatusCode, details: str, expected: type[FeedError], reason: str
) -> None:
    got = status.from_rpc_error(call_error(code, details), "graph")
    assert type(got) is expected
    assert got.reason == reason
    assert "graph" in got.message


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_a_service_that_is_away_is_a_dependency(code: grpc.StatusCode) -> None:
    assert status.from_rpc_error(call_error(code), "graph").metadata == {"dependency": "graph"}


def test_a_reason_of_somebody_else_is_none_of_ours() -> None:
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason="USER_NOT_FOUND", domain="elsewhere.example"))
    theirs = status_pb2.Status(code=5, details=[detail]).SerializeToString()
    got = status.from_rpc_error(call_error(grpc.StatusCode.NOT_FOUND, "", [(DETAILS, theirs)]), "graph")
    assert isinstance(got, errors.Internal)


def test_a_code_of_a_newer_service_is_an_internal_error() -> None:
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason="NEW", domain="feed"))
    newer = status_pb2.Status(code=code_pb2.ALREADY_EXISTS, details=[detail]).SerializeToString()
    got = status.from_rpc_error(call_error(grpc.StatusCode.ALREADY_EXISTS, "", [(DETAILS, newer)]), "graph")
    assert isinstance(got, errors.Internal)


@pytest.mark.parametrize(
    "trailer",
    [b"\xff\xff\xff", status_pb2.Status(code=5, message="of another error").SerializeToString()],
    ids=["no status", "another code"],
)
def test_details_that_do_not_fit_their_status_are_ignored(trailer: bytes) -> None:
    got = status.from_rpc_error(call_error(grpc.StatusCode.UNAVAILABLE, "", [(DETAILS, trailer)]), "graph")
    assert isinstance(got, errors.Unavailable)


# --- over a real connection: texts are user input, and trailers have limits -------------------------------------------


async def refused_with(serve_hydrate: Serve, error: FeedError) -> FeedError:
    async def refuse(request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
        raise error

    async with channel.connect(await serve_hydrate(refuse), SERVICE, "hydrate") as connection:
        with pytest.raises(FeedError) as refused:
            await hydrate_pb2_grpc.HydrateServiceStub(connection).HydratePosts(hydrate_pb2.HydratePostsRequest())
    return refused.value


@pytest.mark.parametrize("text", ["naïve 字 🎈", "a\x00b\x07c\r\nd\x7f", "%41%", "\u202e abc"])
async def test_any_character_survives(serve_hydrate: Serve, text: str) -> None:
    sent = errors.InvalidArgument("INVALID_FIELD", text, violations=[FieldViolation(text, text)], text=text)
    got = await refused_with(serve_hydrate, sent)
    assert (got.message, got.violations, got.metadata) == (text, ((text, text),), {"text": text})


async def test_half_a_character_becomes_a_question_mark(serve_hydrate: Serve) -> None:
    got = await refused_with(serve_hydrate, errors.InvalidArgument.of_field("name", "not \ud800"))
    assert isinstance(got, errors.InvalidArgument)
    assert got.violations == (("name", "not ?"),)


@pytest.mark.parametrize("character", ["a", "字", "🎈", "\x00"])
async def test_a_text_beyond_all_limits_is_cut_and_the_error_stays_what_it_is(
    serve_hydrate: Serve, character: str
) -> None:
    text = character * 100_000
    sent = errors.InvalidArgument(
        "INVALID_FIELD", text, violations=[FieldViolation(text, text)] * 1000, first=text, second=text
    )
    got = await refused_with(serve_hydrate, sent)
    assert isinstance(got, errors.InvalidArgument)
    assert (got.message[0], got.message[-1]) == (character, "…")
    assert got.violations[0].field.startswith(character)


@given(st.text(max_size=2000).filter(lambda text: text.isprintable()))
def test_what_is_cut_is_cut_between_characters(text: str) -> None:
    got = over_the_wire(errors.NotFound("POST_NOT_FOUND", text)).message
    assert got == text or (got.endswith("…") and text.startswith(got[:-1]))
    assert len(got.encode()) <= status.MAX_MESSAGE_BYTES
