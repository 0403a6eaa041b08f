"""Servers within this process and outside, and recorded spans, for tests."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from feed.graph.v1 import graph_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import telemetry
from feedkit.server import GrpcServerSettings, Process
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

# The published types want every method.
GraphServiceServicer: Any = graph_pb2_grpc.GraphServiceServicer
Behaviour = Callable[[hydrate_pb2.HydratePostsRequest], Awaitable[hydrate_pb2.HydratePostsResponse]]


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait until a condition holds; fail after ten seconds."""

    async def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "it did not come about"
            await asyncio.sleep(0.005)

    return wait


@pytest.fixture
async def serve(
    eventually: Callable[[Callable[[], bool]], Awaitable[None]],
) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Serve a servicer, which `add` adds to a server, with any settings, until the end of the test. Gives the target."""
    running: list[tuple[Process, asyncio.Task[None]]] = []
    async with AsyncExitStack() as resources:

        async def start(add: Callable[[Any, grpc.aio.Server], None], servicer: object, **settings: Any) -> str:
            settings = {"grpc_listen": "127.0.0.1:0", "drain_seconds": 0, "grace_seconds": 0.5, **settings}
            chosen = GrpcServerSettings(**settings)
            process = Process("test", chosen, resources)
            task = asyncio.create_task(process.serve(chosen, lambda server: add(servicer, server), []))
            running.append((process, task))
            await eventually(lambda: process.address is not None or task.done())
            assert process.address is not None, task.exception()
            return process.address

        yield start
        for process, _ in running:
            process.stop()
        await asyncio.gather(*(task for _, task in running))


@pytest.fixture
def serve_hydrate(serve: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """Serve `HydratePosts` by a function of the request."""

    async def start(behaviour: Behaviour, **settings: Any) -> str:
        class Servicer(hydrate_pb2_grpc.HydrateServiceServicer):
            async def HydratePosts(self, request: hydrate_pb2.HydratePostsRequest, context: object) -> Any:
                return await behaviour(request)

        return await serve(hydrate_pb2_grpc.add_HydrateServiceServicer_to_server, Servicer(), **settings)

    return start


@pytest.fixture
def serve_followers(serve: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """Serve `StreamFollowers` by an asynchronous generator function of the request."""

    async def start(behaviour: Callable[[Any], AsyncIterator[Any]], **settings: Any) -> str:
        class Servicer(GraphServiceServicer):
            def StreamFollowers(self, request: Any, context: object) -> Any:
                return behaviour(request)

        return await serve(graph_pb2_grpc.add_GraphServiceServicer_to_server, Servicer(), **settings)

    return start


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What this process records, under the standard sampler: all but what the caller did not sample."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("feedkit"))
    yield exporter
    provider.shutdown()


class Toy:
    """A process of `programs/toy.py` and what it has logged."""

    def __init__(self, log: Path, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        self._log = log
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("FEED_", "OTEL_"))}
        settings = {"FEED_GRPC_LISTEN": "127.0.0.1:0", "FEED_DRAIN_SECONDS": "0.2", **environment}
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, Path(__file__).parent / "programs" / "toy.py", *arguments],
                stderr=stderr,
                env={**inherited, **settings},
            )

    @property
    def output(self) -> str:
        """All that it wrote to standard error."""
        return self._log.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its log."""
        complete, _, _ = self.output.rpartition("\n")
        return [json.loads(line) for line in complete.splitlines()]

    def has_said(self, message: str) -> bool:
        """Whether a line of its log begins so."""
        return any(line["message"].startswith(message) for line in self.lines)

    @property
    def target(self) -> str:
        """Where it listens."""
        [address] = [line["address"] for line in self.lines if line["message"] == "listening"]
        return address


@pytest.fixture
def run_toy(tmp_path: Path) -> Iterator[Callable[..., Toy]]:
    """Start a toy with some command and environment; it is killed at the end of the test."""
    toys: list[Toy] = []

    def run(*arguments: str, **environment: str) -> Toy:
        toy = Toy(tmp_path / f"toy{len(toys)}.log", arguments, environment)
        toys.append(toy)
        return toy

    yield run
    for toy in toys:
        toy.process.kill()
        toy.process.wait()


@pytest.fixture
def start_toy(
    run_toy: Callable[..., Toy], eventually: Callable[[Callable[[], bool]], Awaitable[None]]
) -> Callable[..., Awaitable[Toy]]:
    """Start a toy and wait until it listens."""

    async def start(**environment: str) -> Toy:
        toy = run_toy(**environment)
        await eventually(lambda: toy.has_said("listening") or toy.process.poll() is not None)
        assert toy.process.poll() is None, toy.output
        return toy

    return start
