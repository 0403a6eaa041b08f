"""Reads a second through the real mesh, pulled, beside the empty chain of the same hops, in interleaved runs."""

import asyncio
import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from devmesh.mesh import Mesh
from devmesh.ports import free_ports
from feed_api import FeedApi

from tests.bench.canned import CONTENT, FOLLOWEES, PAGE
from tests.bench.load import closed_loop, get
from tests.bench.results import Result

CONNECTIONS = 8
POSTS_EACH = 5
VIEWERS = 20
ROLES = ("graph", "post", "hydrate", "timeline", "gateway")


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure; a ratio, and both rates for what they are worth on this machine."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        mesh = stack.enter_context(Mesh(directory=directory))
        chain = stack.enter_context(_empty_chain())
        real = int(mesh.addresses.gateway.rsplit(":", 1)[1])
        viewers = asyncio.run(_populate(mesh.addresses.gateway))
        for port in (real, chain):
            _rate(port, viewers, seconds=1.0)  # warm up
        rates = [(_rate(real, viewers, seconds), _rate(chain, viewers, seconds)) for _ in range(runs)]
    return [
        Result.of(
            "read.pull.throughput_vs_empty_chain",
            [mine / empty for mine, empty in rates],
            unit="ratio",
            goal="higher",
            ceiling=1.0,
        ),
        Result.of("read.pull.per_second", [mine for mine, _ in rates], unit="1/s", goal="higher"),
        Result.of("read.empty_chain.per_second", [empty for _, empty in rates], unit="1/s", goal="higher"),
    ]


def _rate(port: int, viewers: list[int], seconds: float) -> float:
    requests = itertools.cycle([get(f"/api/feed?limit={PAGE}", viewer) for viewer in viewers])
    load = closed_loop(port, lambda: next(requests), connections=CONNECTIONS, seconds=seconds)
    return asyncio.run(load).per_second


async def _populate(gateway: str) -> list[int]:
    """Viewers who follow 300 accounts each, of 400 that posted five times; everybody sees full pages."""
    picks = random.Random(1)
    async with FeedApi(gateway) as api:
        gate = asyncio.Semaphore(16)

        async def author(number: int) -> int:
            async with gate:
                user = await api.create_user(f"Author {number}")
                for _ in range(POSTS_EACH):
                    await api.create_post(user, CONTENT)
                return user

        authors = await asyncio.gather(*map(author, range(FOLLOWEES * 4 // 3)))
        viewers = [await api.create_user(f"Viewer {number}") for number in range(VIEWERS)]
        for viewer in viewers:
            await api.follow_many(viewer, picks.sample(authors, FOLLOWEES))
        return viewers


@contextmanager
def _empty_chain() -> Generator[int]:
    """The empty chain, running; the port of its gateway."""
    ports = dict(zip(ROLES, free_ports(len(ROLES)), strict=True))
    neighbours = [f"{role}={port}" for role, port in ports.items()]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.empty_chain", role, str(port), *neighbours], env=dict(os.environ)
        )
        for role, port in ports.items()
    ]
    try:
        asyncio.run(_until_listening(list(ports.values())))
        yield ports["gateway"]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


async def _until_listening(ports: list[int]) -> None:
    async with asyncio.timeout(30):
        for port in ports:
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
