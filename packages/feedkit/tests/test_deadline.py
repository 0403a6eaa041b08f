"""A deadline shrinks from hop to hop and is never extended."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import channel, deadline
from feedkit.errors import DeadlineExceeded
from hypothesis import given
from hypothesis import strategies as st

SERVICE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
REQUEST = hydrate_pb2.HydratePostsRequest()
Serve = Callable[..., Awaitable[str]]
seconds = st.floats(0.05, 100)


async def test_without_a_deadline_a_call_gets_the_longest_time_there_is() -> None:
    assert deadline.timeout_for_call(5.0) == 5.0


async def test_a_call_gets_what_is_left_less_what_the_hop_needs_for_its_own_answer() -> None:
    with deadline.within(1.0):
        assert 0.9 < deadline.timeout_for_call(5.0) < 1.0


async def test_a_call_gets_no_more_than_it_asks_for() -> None:
    with deadline.within(10.0):
        assert deadline.timeout_for_call(5.0) == 5.0


@given(seconds, seconds)
async def test_no_block_extends_the_deadline_of_the_one_around_it(outer: float, inner: float) -> None:
    with deadline.within(outer), deadline.within(inner):
        assert deadline.timeout_for_call(1000.0) <= min(outer, inner)


async def test_after_a_block_the_deadline_is_that_of_the_one_around_it() -> None:
    with deadline.within(50.0):
        with deadline.within(1.0):
            pass
        assert deadline.timeout_for_call(1000.0) > 49


async def test_tasks_inherit_the_deadline() -> None:
    async def ask() -> float:
        return deadline.timeout_for_call(5.0)

    with deadline.within(1.0):
        assert await asyncio.create_task(ask()) < 1.0


async def test_with_nothing_left_no_call_is_made(serve_hydrate: Serve) -> None:
    calls: list[object] = []

    async def answer(request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
        calls.append(request)
        return hydrate_pb2.HydratePostsResponse()

    async with channel.connect(await serve_hydrate(answer), SERVICE, "hydrate") as connection:
        stub = hydrate_pb2_grpc.HydrateServiceStub(connection)
        with deadline.within(0.0), pytest.raises(DeadlineExceeded):
            await stub.HydratePosts(REQUEST)
        await stub.HydratePosts(REQUEST)
    assert len(calls) == 1


async def test_of_a_very_short_rest_half_is_for_the_call() -> None:
    with deadline.within(0.06):
        assert 0.01 < deadline.timeout_for_call(1000.0) <= 0.03


async def test_every_hop_has_less_time_than_the_one_before(serve_hydrate: Serve) -> None:
    left: list[float] = []

    async def last(request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
        left.append(deadline.timeout_for_call(1000.0))
        return hydrate_pb2.HydratePostsResponse()

    behaviour: Callable[..., Awaitable[hydrate_pb2.HydratePostsResponse]] = last
    connections: list[channel.Channel] = []
    for _ in range(3):
        target = await serve_hydrate(behaviour)
        connections.append(connection := channel.connect(target, SERVICE, "hydrate"))

        async def relay(
            request: hydrate_pb2.HydratePostsRequest, connection: channel.Channel = connection
        ) -> hydrate_pb2.HydratePostsResponse:
            left.append(deadline.timeout_for_call(1000.0))
            return await hydrate_pb2_grpc.HydrateServiceStub(connection).HydratePosts(request)

        behaviour = relay
    with deadline.within(0.9):  # from one second on, gRPC rounds to hundredths, upwards
        await behaviour(REQUEST)
    for connection in connections:
        await connection.close()
    steps = [before - after for before, after in pairwise(left)]
    assert len(steps) == 3
    assert min(steps) > deadline.HOP_MARGIN_SECONDS * 0.9
    assert left[0] < 0.9


async def test_a_hop_still_answers_when_its_own_call_ran_out_of_time(
    serve_hydrate: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "HOP_MARGIN_SECONDS", 0.3)  # enough for a machine that is busy with other tests

    async def sleep(request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
        await asyncio.sleep(30)
        return hydrate_pb2.HydratePostsResponse()

    async with channel.connect(await serve_hydrate(sleep), SERVICE, "slowpoke") as slow:

        async def relay(request: hydrate_pb2.HydratePostsRequest) -> hydrate_pb2.HydratePostsResponse:
            try:
                return await hydrate_pb2_grpc.HydrateServiceStub(slow).HydratePosts(request)
            except DeadlineExceeded:
                unavailable = hydrate_pb2.Unavailable(dependency="slowpoke")
                return hydrate_pb2.HydratePostsResponse(hydrations=[hydrate_pb2.Hydration(unavailable=unavailable)])

        async with channel.connect(await serve_hydrate(relay), SERVICE, "hydrate") as connection:
            answer = await hydrate_pb2_grpc.HydrateServiceStub(connection).HydratePosts(REQUEST, timeout=0.9)
    assert answer.hydrations[0].unavailable.dependency == "slowpoke"
