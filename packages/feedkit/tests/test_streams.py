"""A stream is refused, ends and is cut off as a call is, before its first message and after."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio
import pytest
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feedkit import channel, telemetry
from feedkit.errors import DeadlineExceeded, Internal, InvalidArgument, Overloaded, Unavailable
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

SERVICE = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
Serve = Callable[..., Awaitable[str]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
Request = graph_pb2.StreamFollowersRequest


def plainly(target: str) -> Any:
    """A channel without anything of ours."""
    return grpc.aio.insecure_channel(target)


def page(number: int, size: int = 1) -> graph_pb2.StreamFollowersResponse:
    return graph_pb2.StreamFollowersResponse(follower_ids=[number] * size)


async def three(request: Request) -> AsyncIterator[graph_pb2.StreamFollowersResponse]:
    for number in (1, 2, 3):
        yield page(number)


def failing_after(pages: int, error: Exception) -> Callable[[Request], AsyncIterator[Any]]:
    async def fail(request: Request) -> AsyncIterator[Any]:
        for number in range(pages):
            yield page(number)
        raise error

    return fail


class Watched:
    """A stream without end, and whether it was closed."""

    def __init__(self, size: int = 1) -> None:
        self.sent = 0
        self.closed_in: list[asyncio.Task[Any] | None] = []
        self.served_in: list[asyncio.Task[Any] | None] = []
        self._size = size

    async def __call__(self, request: Request) -> AsyncIterator[graph_pb2.StreamFollowersResponse]:
        self.served_in.append(asyncio.current_task())
        try:
            while True:
                yield page(self.sent, self._size)
                self.sent += 1
                await asyncio.sleep(0.001)
        finally:
            self.closed_in.append(asyncio.current_task())


async def read(target: str, user_id: int = 1, **options: Any) -> list[int]:
    got: list[int] = []
    async with channel.connect(target, SERVICE, "graph") as connection:
        stub: Any = graph_pb2_grpc.GraphServiceStub(connection)
        async for message in stub.StreamFollowers(Request(user_id=user_id), **options):
            got.extend(message.follower_ids)
    return got


async def test_messages_come_in_order_and_end(serve_followers: Serve) -> None:
    assert await read(await serve_followers(three)) == [1, 2, 3]


@pytest.mark.parametrize("pages", [0, 2])
async def test_a_failure_comes_after_the_messages_before_it(serve_followers: Serve, pages: int) -> None:
    target = await serve_followers(failing_after(pages, Unavailable.of_dependency("postgres")))
    got: list[int] = []
    async with channel.connect(target, SERVICE, "graph", retry_also=()) as connection:
        stub: Any = graph_pb2_grpc.GraphServiceStub(connection)
        with pytest.raises(Unavailable, match="postgres"):
            async for message in stub.StreamFollowers(Request(user_id=1)):
                got.extend(message.follower_ids)
    assert got == list(range(pages))


@pytest.mark.parametrize("pages", [0, 2])
async def test_an_unforeseen_failure_tells_nothing_but_a_trace_id(serve_followers: Serve, pages: int) -> None:
    with pytest.raises(Internal) as refused:
        await read(await serve_followers(failing_after(pages, ValueError("hunter2"))))
    assert "hunter2" not in refused.value.message
    assert set(refused.value.metadata) == {"trace_id"}


async def test_a_broken_rule_is_refused_before_the_first_message(serve_followers: Serve) -> None:
    with pytest.raises(InvalidArgument, match="user_id"):
        await read(await serve_followers(three), user_id=0)


async def test_bytes_that_are_no_message_are_a_wrong_argument(serve_followers: Serve) -> None:
    async with plainly(await serve_followers(three)) as connection:
        method = connection.unary_stream("/feed.graph.v1.GraphService/StreamFollowers")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await method(b"\xff\xff").read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_stream_is_capped(serve_followers: Serve) -> None:
    target = await serve_followers(Watched(), grpc_stream_seconds=0.2)
    with pytest.raises(DeadlineExceeded):
        await asyncio.wait_for(read(target), 5)


async def test_streams_beyond_the_limit_are_shed(serve_followers: Serve, eventually: Eventually) -> None:
    watched = Watched()
    target = await serve_followers(watched, grpc_max_concurrent_calls=1)
    going = asyncio.create_task(read(target))
    await eventually(lambda: watched.sent > 0)
    with pytest.raises(Overloaded):
        await read(target)
    going.cancel()


async def test_a_consumer_that_is_cancelled_closes_the_stream_at_its_source(
    serve_followers: Serve, eventually: Eventually
) -> None:
    watched = Watched()
    going = asyncio.create_task(read(await serve_followers(watched)))
    await eventually(lambda: watched.sent > 2)
    going.cancel()
    await eventually(lambda: len(watched.closed_in) == 1)
    assert watched.closed_in == watched.served_in


async def test_a_consumer_that_stops_reading_closes_the_stream_at_its_source(
    serve_followers: Serve, eventually: Eventually
) -> None:
    watched = Watched()
    async with channel.connect(await serve_followers(watched), SERVICE, "graph") as connection:
        stub: Any = graph_pb2_grpc.GraphServiceStub(connection)
        messages = stub.StreamFollowers(Request(user_id=1))
        await anext(messages)
        await messages.aclose()
        await eventually(lambda: len(watched.closed_in) == 1)


async def test_a_stream_that_waits_for_a_slow_reader_is_closed_where_it_ran(
    serve_followers: Serve, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller goes away while the server waits to send: the generator must not be left to the garbage collector."""
    watched = Watched(size=50_000)
    async with plainly(await serve_followers(watched)) as connection:
        method = connection.unary_stream("/feed.graph.v1.GraphService/StreamFollowers")
        stream = method(Request(user_id=1).SerializeToString())
        await stream.read()
        sent = -1
        while sent != watched.sent:
            sent = watched.sent
            await asyncio.sleep(0.1)
        with caplog.at_level(logging.INFO):
            stream.cancel()
            await eventually(lambda: len(watched.closed_in) == 1)
            await asyncio.sleep(0)
    assert watched.closed_in == watched.served_in
    assert not caplog.records


async def test_what_a_consumer_does_between_messages_is_no_child_of_the_stream(
    serve_followers: Serve, spans: InMemorySpanExporter
) -> None:
    async with channel.connect(await serve_followers(three), SERVICE, "graph") as connection:
        stub: Any = graph_pb2_grpc.GraphServiceStub(connection)
        with telemetry.server_span("job", telemetry.extract({}), {}) as job:
            async for _ in stub.StreamFollowers(Request(user_id=1)):
                assert trace.get_current_span() is job
    [client, server_side] = sorted(spans.get_finished_spans(), key=lambda span: span.start_time or 0)[1:]
    assert client.parent == job.get_span_context()
    assert server_side.parent and client.context
    assert server_side.parent.span_id == client.context.span_id
