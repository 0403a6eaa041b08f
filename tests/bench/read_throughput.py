"""Reads a second through the real mesh, warm and pulled, each beside the empty chain of its hops, in interleaved runs."""

import asyncio
import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devmesh.mesh import Mesh
from devmesh.ports import free_ports
from devmesh.processes import PROCESSES
from feed_api import FeedApi
from settling import settled
from stored_keys import StoredKeys
from timelines import warmed
from walks import each

from tests.bench.canned import CONTENT, FOLLOWEES, PAGE
from tests.bench.empty_chain import CHAINS
from tests.bench.load import closed_loop, get
from tests.bench.results import Result

CONNECTIONS = 8
POSTS_EACH = 5
VIEWERS = 20
# With as many viewers, who follow three of four authors each, some ten of the 400 are followed by so many of them.
SOME_PULLED = {"FEED_CELEBRITY_THRESHOLD": "19"}
ALL_PULLED = {"FEED_CELEBRITY_THRESHOLD": "0"}
WITHOUT_FAN_OUT = [process for process in PROCESSES if process.role is None and process.name != "fanout"]


@dataclass(frozen=True)
class Contest:
    """A kind of read, and the two that answer it."""

    kind: str
    mesh: int
    """The port of the real mesh."""
    chain: int
    """The port of the empty chain."""
    viewers: Sequence[int]


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure; ratios, and the rates for what they are worth on this machine."""
    with ExitStack() as stack:
        contests = [_warm(stack), _pulled(stack)]
        for contest in contests:
            _rates(contest, seconds=1.0)  # warm up
        measured = [[_rates(contest, seconds) for contest in contests] for _ in range(runs)]
    return [
        result
        for contest, rates in zip(contests, zip(*measured, strict=True), strict=True)
        for result in _results(contest.kind, rates)
    ]


def _results(kind: str, rates: Sequence[tuple[float, float]]) -> list[Result]:
    mine, empty = [mine for mine, _ in rates], [empty for _, empty in rates]
    ratios = [one / other for one, other in rates]
    return [
        Result.of(f"read.{kind}.throughput_vs_empty_chain", ratios, unit="ratio", goal="higher", ceiling=1.0),
        Result.of(f"read.{kind}.per_second", mine, unit="1/s", goal="higher"),
        Result.of(f"read.{kind}.empty_chain_per_second", empty, unit="1/s", goal="higher"),
    ]


def _rates(contest: Contest, seconds: float) -> tuple[float, float]:
    return rate(contest.mesh, contest.viewers, seconds), rate(contest.chain, contest.viewers, seconds)


def rate(
    port: int, viewers: Sequence[int], seconds: float, *, view: str = "latest", connections: int = CONNECTIONS
) -> float:
    """First pages of a view that these viewers are served a second."""
    requests = itertools.cycle([get(f"/api/feed?limit={PAGE}&view={view}", viewer) for viewer in viewers])
    load = closed_loop(port, lambda: next(requests), connections=connections, seconds=seconds)
    return asyncio.run(load).per_second


def _warm(stack: ExitStack) -> Contest:
    port, viewers = warm_mesh(stack)
    return Contest("warm", port, stack.enter_context(_empty_chain("warm")), viewers)


def warm_mesh(stack: ExitStack) -> tuple[int, Sequence[int]]:
    """A mesh in which timelines stand in Redis, and ten of the authors are pulled: the port of its gateway, and viewers."""
    mesh = stack.enter_context(Mesh(SOME_PULLED, directory=_directory(stack)))
    return _port(mesh), asyncio.run(_populate(mesh, with_timelines=True))


def _pulled(stack: ExitStack) -> Contest:
    """Everything is pulled from PostgreSQL."""
    mesh = stack.enter_context(Mesh(ALL_PULLED, directory=_directory(stack), processes=WITHOUT_FAN_OUT))
    viewers = asyncio.run(_populate(mesh, with_timelines=False))
    return Contest("pull", _port(mesh), stack.enter_context(_empty_chain("pulled")), viewers)


def _directory(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory()))


def _port(mesh: Mesh) -> int:
    return int(mesh.addresses.gateway.rsplit(":", 1)[1])


async def _populate(mesh: Mesh, *, with_timelines: bool) -> list[int]:
    """Viewers who follow 300 accounts each, of 400 that post five times; everybody sees full pages."""
    picks = random.Random(1)
    async with FeedApi(mesh.addresses.gateway) as api, StoredKeys(mesh.addresses.redis) as stored:
        authors = await each(range(FOLLOWEES * 4 // 3), lambda number: api.create_user(f"Author {number}"))
        viewers = [await api.create_user(f"Viewer {number}") for number in range(VIEWERS)]
        for viewer in viewers:
            await api.follow_many(viewer, picks.sample(authors, FOLLOWEES))
        if with_timelines:
            await warmed(mesh, api, stored, viewers)
        await each(authors * POSTS_EACH, lambda author: api.create_post(author, CONTENT))
        if with_timelines:
            await settled(mesh)
        return viewers


@contextmanager
def _empty_chain(kind: str) -> Generator[int]:
    """An empty chain, running; the port of its gateway."""
    roles = CHAINS[kind]
    ports = dict(zip(roles, free_ports(len(roles)), strict=True))
    neighbours = [f"{role}={port}" for role, port in ports.items()]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.empty_chain", kind, role, str(port), *neighbours], env=dict(os.environ)
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
