"""A channel looks its service's name up anew as soon as a connection has ended, so that a rollout leaves nobody alone."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import channel

HYDRATE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
REQUEST = hydrate_pb2.HydratePostsRequest()
Serve = Callable[..., Awaitable[str]]
IPV4 = 1
"""The type of a question for an IPv4 address."""


class NameServer(asyncio.DatagramProtocol):
    """Says of every name that it has one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a question: the same bytes, with one answer for what asks for an IPv4 address and none for others."""
        end = data.index(b"\0", 12) + 5
        question = data[12:end]
        answers = int(question[-4:-2] == struct.pack("!H", IPV4))
        # The name is where the question has it; the class is Internet, to be kept for 0 seconds.
        answer = struct.pack("!HHHIH", 0xC00C, IPV4, 1, 0, 4) + socket.inet_aton(self.address)
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, answers, 0, 0)
        self._transport.sendto(head + question + answer * answers, addr)


@asynccontextmanager
async def naming(address: str) -> AsyncGenerator[tuple[NameServer, str]]:
    """A name server, and where it is."""
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(address), local_addr=("127.0.0.1", 0)
    )
    try:
        host, port = transport.get_extra_info("sockname")
        yield server, f"{host}:{port}"
    finally:
        transport.close()


async def test_a_server_that_has_come_is_found_when_another_one_goes(serve_hydrate: Serve) -> None:
    called: set[str] = set()

    def named(name: str) -> Callable[[object], Awaitable[hydrate_pb2.HydratePostsResponse]]:
        async def answer(request: object) -> hydrate_pb2.HydratePostsResponse:
            called.add(name)
            return hydrate_pb2.HydratePostsResponse()

        return answer

    # Lets go of its clients soon, as a server does that is about to end.
    old = await serve_hydrate(named("old"), grpc_max_connection_age_seconds=0.3)
    port = old.rpartition(":")[2]
    await serve_hydrate(named("new"), grpc_listen=f"127.0.0.2:{port}")
    async with (
        naming("127.0.0.1") as (names, server),
        channel.connect(f"dns://{server}/hydrate:{port}", HYDRATE, "hydrate") as connection,
    ):
        stub = hydrate_pb2_grpc.HydrateServiceStub(connection)
        await stub.HydratePosts(REQUEST)
        assert called == {"old"}
        names.address = "127.0.0.2"
        began = time.monotonic()
        while "new" not in called:
            await stub.HydratePosts(REQUEST)
            await asyncio.sleep(0.05)
            assert time.monotonic() - began < 10
