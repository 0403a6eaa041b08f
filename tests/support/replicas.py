"""Further processes beside those that a mesh has, as a cluster runs several of a kind."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil
from devmesh import probe
from devmesh.child import Child
from devmesh.guard import Guard
from devmesh.mesh import Mesh
from devmesh.ports import free_ports
from devmesh.processes import PROCESSES, Process
from feed_api import FeedApi
from polling import until

_STOP_SECONDS = 20.0


class Replica:
    """One of them. It has to be started, and may be killed and started again at the same address."""

    def __init__(
        self,
        process: Process,
        port: int,
        command: Sequence[str],
        *,
        guard: Guard,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._process = process
        self._command = command
        self._guard = guard
        self._log = log
        self._environment = environment
        self._port = port
        self._child: Child | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self._port}"

    @property
    def runs(self) -> bool:
        """Whether it lives."""
        return self._child is not None and self._child.exit_code is None

    async def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        return await asyncio.to_thread(probe.ready, self._process.serves, self._port)

    def start(self) -> None:
        """Start it, and wait for nothing."""
        self._child = Child(
            self._process.name, self._command, guard=self._guard, log=self._log, environment=self._environment
        )

    async def until_ready(self) -> None:
        """Return when it is ready."""
        await until(self.is_ready, f"{self._process.name} at {self.address}, see {self._log}")

    async def kill(self) -> None:
        """End it by SIGKILL."""
        if self._child is not None:
            await asyncio.to_thread(self._child.kill)

    async def terminate(self) -> int:
        """End it by SIGTERM; its exit code."""
        assert self._child is not None
        return await asyncio.to_thread(self._child.end, signal.SIGTERM, _STOP_SECONDS)


@asynccontextmanager
async def replicas(
    mesh: Mesh,
    name: str,
    count: int,
    directory: Path,
    *,
    settings: Mapping[str, str] | None = None,
    launcher: Sequence[str | Path] = (),
) -> AsyncGenerator[list[Replica]]:
    """So many more of a process that runs in the mesh, with its environment and these settings over it; none is started.

    `launcher`: a program, with its arguments, that is given the module to run. Their logs go into `directory`.
    """
    process = next(process for process in PROCESSES if process.name == name)
    listen = "FEED_HTTP_LISTEN" if process.serves == "http" else "FEED_GRPC_LISTEN"
    environment = {**psutil.Process(mesh.addresses.pids[name]).environ(), **(settings or {})}
    started_by = [*map(str, launcher)] or ["-m"]
    guard = Guard()
    try:
        yield [
            Replica(
                process,
                port,
                [sys.executable, "-P", *started_by, process.module],
                guard=guard,
                log=directory / f"{name}-{port}.log",
                environment={**environment, listen: f"127.0.0.1:{port}"},
            )
            for port in free_ports(count)
        ]
    finally:
        await asyncio.to_thread(guard.close)


async def started(*processes: Replica) -> None:
    """Start all at once, and return when all are ready."""
    for replica in processes:
        replica.start()
    await asyncio.gather(*(replica.until_ready() for replica in processes))


@asynccontextmanager
async def several_timelines(mesh: Mesh, directory: Path, count: int) -> AsyncGenerator[FeedApi]:
    """A gateway that asks so many more processes of the service `timeline` in turn, beside the one of the mesh."""
    async with AsyncExitStack() as stack:
        timelines = await stack.enter_async_context(replicas(mesh, "timeline", count, directory))
        targets = ",".join([mesh.addresses.grpc["timeline"], *(timeline.address for timeline in timelines)])
        [gateway] = await stack.enter_async_context(
            replicas(mesh, "gateway", 1, directory, settings={"FEED_TIMELINE_TARGET": f"ipv4:{targets}"})
        )
        await started(*timelines, gateway)
        yield await stack.enter_async_context(FeedApi(f"http://{gateway.address}"))


async def restart_every_process(mesh: Mesh) -> None:
    """Stop every process of the mesh in order, and start all again; the stores stay."""
    names = [process.name for process in PROCESSES]
    for name in reversed(names):
        await asyncio.to_thread(mesh.terminate, name)
    await asyncio.gather(*(asyncio.to_thread(mesh.restart, name) for name in names))
