"""Processes of a mesh that are down for a while. The mesh's own methods block, so they run beside the event loop."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from devmesh.mesh import Mesh
from devmesh.servers import chosen

MORTAL = (
    "post", "graph", "post-relay", "graph-relay", "fanout", "hydrate", "timeline", "gateway", "redis",
    *sorted(chosen().durable),
)  # fmt: skip
"""Who may die at any moment. The embedded Kafka is not among them: a mock, which takes with it what only it has."""


@asynccontextmanager
async def stopped(mesh: Mesh, *processes: str) -> AsyncGenerator[None]:
    """These processes are stopped in order within the block, and run again after it."""
    for process in processes:
        await asyncio.to_thread(mesh.terminate, process)
    try:
        yield
    finally:
        for process in processes:
            await asyncio.to_thread(mesh.restart, process)


async def killed(mesh: Mesh, process: str) -> None:
    """SIGKILL a process, and start it again."""
    await asyncio.to_thread(mesh.kill, process)
    await asyncio.to_thread(mesh.restart, process)


@asynccontextmanager
async def dead(mesh: Mesh, process: str) -> AsyncGenerator[None]:
    """A process is killed, and started again after the block."""
    await asyncio.to_thread(mesh.kill, process)
    try:
        yield
    finally:
        await asyncio.to_thread(mesh.restart, process)


@asynccontextmanager
async def silent(mesh: Mesh, process: str) -> AsyncGenerator[None]:
    """A process takes connections and answers nothing within the block; then it goes on, and has forgotten nothing."""
    pids = mesh.pids_of(process)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
