"""A channel finds its service again, tries again only what may be tried again, and says who it was that failed."""

import asyncio
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import pytest
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import channel
from feedkit.errors import DeadlineExceeded, FeedError, Internal, NotFound, Unavailable, user_not_found

GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
HYDRATE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
REQUEST = hydrate_pb2.HydratePostsRequest()
Serve = Callable[..., Awaitable[str]]
StartToy = Callable[..., Awaitable[Any]]
GraphServiceServicer: Any = graph_pb2_grpc.GraphServiceServicer


class Graph(GraphServiceServicer):
    """Fails as often as it is told, and counts its calls."""

    def __init__(self, *failures: FeedError) -> None:
        self.calls = 0
        self._failures = list(failures)

    async def _answer(self, response: Any) -> Any:
        self.calls += 1
        if self._failures:
            raise self._failures.pop(0)
        return response

    async def GetUser(self, request: object, context: object) -> Any:
        return await self._answer(graph_pb2.GetUserResponse())

    async def Follow(self, request: object, context: object) -> Any:
        return await self._answer(graph_pb2.FollowResponse())

    async def CreateUser(self, request: object, context: object) -> Any:
        return await self._answer(graph_pb2.CreateUserResponse())


CALLS = {
    "GetUser": graph_pb2.GetUserRequest(user_id=1),
    "Follow": graph_pb2.FollowRequest(actor_id=1, followee_id=2),
    "CreateUser": graph_pb2.CreateUserRequest(name="Ann"),
}


async def call(serve: Serve, graph: Graph, method: str, retry_also: Sequence[str] = ()) -> None:
    target = await serve(graph_pb2_grpc.add_GraphServiceServicer_to_server, graph)
    async with channel.connect(target, GRAPH, "graph", retry_also=retry_also) as connection:
        await getattr(graph_pb2_grpc.GraphServiceStub(connection), method)(CALLS[method])


AWAY = Unavailable("IDS_UNAVAILABLE", "this process makes no ids")
"""What another process of the same service may be able to do."""


@pytest.mark.parametrize("method", ["GetUser", "Follow"])
async def test_an_idempotent_call_is_tried_again_while_the_service_is_away(serve: Serve, method: str) -> None:
    graph = Graph(AWAY, AWAY)
    await call(serve, graph, method)
    assert graph.calls == 3


async def test_it_is_tried_five_times_at_most(serve: Serve) -> None:
    graph = Graph(*[AWAY] * 10)
    with pytest.raises(Unavailable, match="makes no ids"):
        await call(serve, graph, "GetUser")
    assert graph.calls == 5


async def test_a_service_that_waited_for_another_in_vain_is_not_asked_again(serve: Serve) -> None:
    graph = Graph(Unavailable.of_dependency("postgres"))
    with pytest.raises(Unavailable, match="postgres"):
        await call(serve, graph, "GetUser")
    assert graph.calls == 1


async def test_a_call_that_is_not_idempotent_is_not_tried_again(serve: Serve) -> None:
    graph = Graph(AWAY)
    with pytest.raises(Unavailable):
        await call(serve, graph, "CreateUser")
    assert graph.calls == 1


async def test_a_call_that_the_caller_has_made_idempotent_is_tried_again(serve: Serve) -> None:
    graph = Graph(AWAY)
    await call(serve, graph, "CreateUser", retry_also=["CreateUser"])
    assert graph.calls == 2


@pytest.mark.parametrize("error", [user_not_found(1, "user_id"), Internal()], ids=lambda error: type(error).__name__)
async def test_an_answer_is_not_asked_for_again(serve: Serve, error: FeedError) -> None:
    graph = Graph(error)
    with pytest.raises((NotFound, Internal)):
        await call(serve, graph, "GetUser")
    assert graph.calls == 1


async def test_retries_end_while_most_calls_fail(serve: Serve) -> None:
    """Retries must never multiply an overload."""
    graph = Graph(*[AWAY] * 1000)
    target = await serve(graph_pb2_grpc.add_GraphServiceServicer_to_server, graph)
    async with channel.connect(target, GRAPH, "graph") as connection:
        stub: Any = graph_pb2_grpc.GraphServiceStub(connection)
        calls = [stub.GetUser(CALLS["GetUser"]) for _ in range(60)]
        failed = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(error) for error in failed} == {Unavailable}
        before = graph.calls
        with pytest.raises(Unavailable):
            await stub.GetUser(CALLS["GetUser"])
    assert graph.calls == before + 1


@pytest.mark.integration
async def test_a_service_that_was_killed_is_found_again(start_toy: StartToy) -> None:
    first = await start_toy()
    async with channel.connect(first.target, HYDRATE, "hydrate") as connection:
        stub: Any = hydrate_pb2_grpc.HydrateServiceStub(connection)
        await stub.HydratePosts(REQUEST)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        with pytest.raises(Unavailable):
            await stub.HydratePosts(REQUEST)
        await start_toy(FEED_GRPC_LISTEN=first.target)
        began = time.monotonic()
        while True:
            try:
                await stub.HydratePosts(REQUEST)
                break
            except Unavailable:
                assert time.monotonic() - began < 3


async def test_an_idempotent_call_waits_for_a_service_that_is_back_at_once(serve_hydrate: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    async with channel.connect(address, HYDRATE, "hydrate") as connection:
        stub: Any = hydrate_pb2_grpc.HydrateServiceStub(connection)
        calling = asyncio.create_task(stub.HydratePosts(REQUEST))
        while connection.get_state() is not grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            await connection.wait_for_state_change(connection.get_state())

        async def answer(request: object) -> hydrate_pb2.HydratePostsResponse:
            return hydrate_pb2.HydratePostsResponse()

        await serve_hydrate(answer, grpc_listen=address)
        assert await calling == hydrate_pb2.HydratePostsResponse()


async def test_a_refused_connection_names_the_service() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with channel.connect(f"127.0.0.1:{port}", GRAPH, "graph") as connection:
        with pytest.raises(Unavailable, match="graph") as refused:
            await graph_pb2_grpc.GraphServiceStub(connection).CreateUser(graph_pb2.CreateUserRequest(name="Ann"))
    assert refused.value.metadata == {"dependency": "graph"}


async def test_a_service_that_never_answers_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with channel.connect(f"127.0.0.1:{silent.getsockname()[1]}", GRAPH, "graph") as connection:
            stub: Any = graph_pb2_grpc.GraphServiceStub(connection)
            with pytest.raises(DeadlineExceeded, match="graph"):
                await stub.CreateUser(graph_pb2.CreateUserRequest(name="Ann"), timeout=0.3)


async def test_calls_are_balanced_over_all_addresses(serve_hydrate: Serve) -> None:
    served = Counter[int]()

    def counting(number: int) -> Callable[[object], Awaitable[hydrate_pb2.HydratePostsResponse]]:
        async def answer(request: object) -> hydrate_pb2.HydratePostsResponse:
            served[number] += 1
            return hydrate_pb2.HydratePostsResponse()

        return answer

    addresses = [await serve_hydrate(counting(number)) for number in range(2)]
    async with channel.connect(f"ipv4:{','.join(addresses)}", HYDRATE, "hydrate") as connection:
        stub: Any = hydrate_pb2_grpc.HydrateServiceStub(connection)
        deadline = time.monotonic() + 10
        while len(served) < 2:  # until both are connected to
            await stub.HydratePosts(REQUEST)
            assert time.monotonic() < deadline
        served.clear()
        for _ in range(20):
            await stub.HydratePosts(REQUEST)
    assert served == {0: 10, 1: 10}


async def test_a_channel_tells_when_its_service_can_be_reached(serve_hydrate: Serve) -> None:
    async def answer(request: object) -> hydrate_pb2.HydratePostsResponse:
        return hydrate_pb2.HydratePostsResponse()

    async with channel.connect(await serve_hydrate(answer), HYDRATE, "hydrate") as connection:
        assert connection.get_state() is grpc.ChannelConnectivity.IDLE
        assert connection.get_state(try_to_connect=True) is grpc.ChannelConnectivity.IDLE
        await asyncio.wait_for(connection.wait_for_state_change(grpc.ChannelConnectivity.IDLE), 5)
        await asyncio.wait_for(connection.channel_ready(), 5)
        assert connection.get_state() is grpc.ChannelConnectivity.READY
