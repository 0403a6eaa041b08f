"""Processes of a mesh that are down for a while. The mesh's own methods block, so they run beside the event loop."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from devmesh.mesh import Mesh


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
