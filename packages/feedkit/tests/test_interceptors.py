"""Every refused call says why, in the words of the contract; nothing that a caller does is our fault; what is our fault
tells nothing but a trace id."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import channel, deadline
from feedkit.errors import (
    DeadlineExceeded,
    FeedError,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    Overloaded,
    Unavailable,
    user_not_found,
)
from feedkit.status import rpc_status
from google.rpc import error_details_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SERVICE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
# The published types want every method.
PostServiceServicer: Any = post_pb2_grpc.PostServiceServicer
METHOD = "/feed.hydrate.v1.HydrateService/HydratePosts"
Request = hydrate_pb2.HydratePostsRequest
Response = hydrate_pb2.HydratePostsResponse
Serve = Callable[..., Awaitable[str]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


async def call(target: str, request: Request | None = None, **options: Any) -> Response:
    async with channel.connect(target, SERVICE, "hydrate") as connection:
        return await hydrate_pb2_grpc.HydrateServiceStub(connection).HydratePosts(request or Request(), **options)


def plainly(target: str) -> Any:
    """A channel without anything of ours."""
    return grpc.aio.insecure_channel(target)


async def call_plainly(target: str, data: bytes = b"", **options: Any) -> bytes:
    """Send bytes, without anything of ours on this side."""
    async with plainly(target) as connection:
        method = connection.unary_unary(METHOD)
        return await method(data, **options)


def raising(error: BaseException) -> Callable[[Request], Awaitable[Response]]:
    async def fail(request: Request) -> Response:
        raise error

    return fail


async def answer(request: Request) -> Response:
    return Response()


async def sleep(request: Request) -> Response:
    await asyncio.sleep(30)
    return Response()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        user_not_found(17, "viewer_id"),
        InvalidArgument.of_field("page_token", "must be a cursor"),
        Unavailable.of_dependency("postgres"),
        DeadlineExceeded(),
        Internal("told to nobody"),
        ZeroDivisionError("told to nobody"),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_every_refusal_carries_a_reason_of_ours(serve_hydrate: Serve, error: BaseException) -> None:
    target = await serve_hydrate(raising(error))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call_plainly(target)
    status = rpc_status.from_call(refused.value)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "feed"
    assert info.reason == (error.reason if isinstance(error, FeedError) else "INTERNAL")


async def test_the_caller_gets_the_error_that_the_handler_raised(serve_hydrate: Serve) -> None:
    with pytest.raises(NotFound, match="viewer_id: there is no user 17") as refused:
        await call(await serve_hydrate(raising(user_not_found(17, "viewer_id"))))
    assert (refused.value.reason, refused.value.metadata) == ("USER_NOT_FOUND", {"user_id": "17", "field": "viewer_id"})


@pytest.mark.parametrize(
    "error", [ValueError("password=hunter2"), Internal("password=hunter2"), asyncio.CancelledError("hunter2")]
)
async def test_a_fault_of_ours_tells_nothing_but_the_trace_id_of_its_log_line(
    serve_hydrate: Serve, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    target = await serve_hydrate(raising(error))
    with caplog.at_level(logging.ERROR, "feedkit"), pytest.raises(grpc.aio.AioRpcError) as refused:
        await call_plainly(target, metadata=(("traceparent", f"00-{trace}-00f067aa0ba902b7-00"),))
    assert refused.value.code() is grpc.StatusCode.INTERNAL
    assert refused.value.details() == "internal error"
    assert "hunter2" not in str(refused.value.trailing_metadata())
    status = rpc_status.from_call(refused.value)
    info = error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
    assert dict(info.metadata) == {"trace_id": trace}
    assert "hunter2" in caplog.text


async def test_a_refusal_that_grpc_itself_was_asked_for_is_left_alone(serve: Serve) -> None:
    class Servicer(hydrate_pb2_grpc.HydrateServiceServicer):
        async def HydratePosts(self, request: Request, context: Any) -> Any:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not yet")

    target = await serve(hydrate_pb2_grpc.add_HydrateServiceServicer_to_server, Servicer())
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call_plainly(target)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.UNIMPLEMENTED, "not yet")


async def test_a_method_that_is_not_there_is_unimplemented(serve_hydrate: Serve) -> None:
    target = await serve_hydrate(answer)
    async with plainly(target) as connection:
        method = connection.unary_unary("/feed.hydrate.v1.HydrateService/Dehydrate")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await method(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


# --- wrong requests ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff", b"\x0a", b"\x12\x05\x01", b"not protobuf"], ids=lambda data: data.hex()
)
async def test_bytes_that_are_no_message_are_a_wrong_argument(serve_hydrate: Serve, data: bytes) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call_plainly(await serve_hydrate(answer), data)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_text_that_is_no_utf8_is_a_wrong_argument(serve: Serve) -> None:
    target = await serve(post_pb2_grpc.add_PostServiceServicer_to_server, PostServiceServicer())
    async with plainly(target) as connection:
        method = connection.unary_unary("/feed.post.v1.PostService/CreatePost")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await method(b"\x08\x01\x12\x02\xc3\x28")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=50))
async def test_no_bytes_whatever_are_our_fault(serve_hydrate: Serve, sent: list[bytes]) -> None:
    async with plainly(await serve_hydrate(answer)) as connection:
        for data in sent:
            try:
                await connection.unary_unary(METHOD)(data)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_broken_rule_is_refused_by_path_before_the_handler_runs(serve: Serve) -> None:
    ran: list[object] = []

    class Servicer(PostServiceServicer):
        async def CreatePost(self, request: Any, context: object) -> Any:
            ran.append(request)

    target = await serve(post_pb2_grpc.add_PostServiceServicer_to_server, Servicer())
    request = post_pb2.CreatePostRequest(
        author_id=1, content="a", media=[post_pb2.MediaReference(url="no URL", type="image")]
    )
    async with channel.connect(target, post_pb2.DESCRIPTOR.services_by_name["PostService"], "post") as connection:
        with pytest.raises(InvalidArgument) as refused:
            await post_pb2_grpc.PostServiceStub(connection).CreatePost(request)
    assert "media[0].url" in [violation.field for violation in refused.value.violations]
    assert not ran


async def test_a_request_all_of_whose_many_items_are_wrong_is_still_a_wrong_argument(serve_hydrate: Serve) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await call(await serve_hydrate(answer), Request(post_ids=[-1] * 10_000))
    assert refused.value.violations[0] == FieldViolation("post_ids", "must contain no more than 100 item(s)")


async def test_a_message_that_is_too_large_is_told_so(serve_hydrate: Serve) -> None:
    target = await serve_hydrate(answer)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call_plainly(target, bytes(17 * 1024 * 1024))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in (refused.value.details() or "")


# --- deadlines and ends -----------------------------------------------------------------------------------------------


async def test_a_call_without_a_deadline_is_capped(serve_hydrate: Serve) -> None:
    target = await serve_hydrate(sleep, grpc_unary_seconds=0.2)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asyncio.wait_for(call_plainly(target), 5)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert rpc_status.from_call(refused.value) is not None


async def test_a_call_with_a_longer_deadline_is_capped(serve_hydrate: Serve) -> None:
    target = await serve_hydrate(sleep, grpc_unary_seconds=0.2)
    with pytest.raises(DeadlineExceeded):
        await asyncio.wait_for(call(target, timeout=60), 5)


async def test_a_handler_knows_the_deadline_of_its_caller(serve_hydrate: Serve) -> None:
    left: list[float] = []

    async def look(request: Request) -> Response:
        left.append(deadline.timeout_for_call(1000.0))
        return Response()

    target = await serve_hydrate(look)
    await call_plainly(target, timeout=0.9)
    await call_plainly(target)
    # On the wire gRPC rounds deadlines upwards, by up to a hundredth of a second.
    assert 0.5 < left[0] < 0.9 + 0.01 - deadline.HOP_MARGIN_SECONDS
    assert 9.5 < left[1] < 10


async def test_a_timeout_within_a_handler_is_no_unforeseen_error(serve_hydrate: Serve) -> None:
    with pytest.raises(DeadlineExceeded):
        await call(await serve_hydrate(raising(TimeoutError())))


class Endless:
    """A handler that never answers by itself, and how it ended."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0

    async def __call__(self, request: Request) -> Response:
        self.started += 1
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Response()


async def test_a_handler_whose_caller_goes_away_is_cancelled(serve_hydrate: Serve, eventually: Eventually) -> None:
    endless = Endless()
    going = asyncio.create_task(call(await serve_hydrate(endless)))
    await eventually(lambda: endless.started == 1)
    going.cancel()
    await eventually(lambda: endless.cancelled == 1)
    with pytest.raises(asyncio.CancelledError):
        await going


async def test_a_handler_whose_caller_has_no_time_left_is_cancelled(
    serve_hydrate: Serve, eventually: Eventually
) -> None:
    endless = Endless()
    with pytest.raises(DeadlineExceeded):
        await call(await serve_hydrate(endless), timeout=0.2)
    await eventually(lambda: endless.cancelled == 1)


async def test_nothing_is_logged_when_a_caller_goes_away(
    serve_hydrate: Serve, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    endless = Endless()
    going = asyncio.create_task(call(await serve_hydrate(endless)))
    await eventually(lambda: endless.started == 1)
    with caplog.at_level(logging.INFO):
        going.cancel()
        await eventually(lambda: endless.cancelled == 1)
    assert not caplog.records


# --- shedding ---------------------------------------------------------------------------------------------------------


async def test_calls_beyond_the_limit_are_shed_at_once_and_places_come_back(
    serve_hydrate: Serve, eventually: Eventually
) -> None:
    endless = Endless()
    target = await serve_hydrate(endless, grpc_max_concurrent_calls=2)
    going = [asyncio.create_task(call(target)) for _ in range(2)]
    await eventually(lambda: endless.started == 2)
    with pytest.raises(Overloaded) as refused:
        await call(target)
    assert (refused.value.reason, refused.value.metadata) == ("OVERLOADED", {"retry_after_ms": "1000"})
    for task in going:
        task.cancel()
    await eventually(lambda: endless.cancelled == 2)
    with pytest.raises(DeadlineExceeded):
        await call(target, timeout=0.2)
