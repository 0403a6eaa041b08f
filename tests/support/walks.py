"""Many people at once, and their walks compared with the oracle."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedctl.oracle import Oracle, Walk, faults

CONCURRENCY = 12

Item = TypeVar("Item")
Result = TypeVar("Result")
WalkOf = Callable[[int, int], Awaitable[Walk]]
"""Walks the home feed of a viewer, so many posts a page."""


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[Result]]) -> list[Result]:
    """Do the work for every item, some at a time."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def gated(item: Item) -> Result:
        async with gate:
            return await work(item)

    return await asyncio.gather(*map(gated, items))


async def differences(
    mesh: Mesh,
    api: FeedApi,
    viewers: Sequence[int],
    limit: int,
    walk: WalkOf | None = None,
    *,
    full_pages: bool = True,
) -> list[str]:
    """What is wrong with the walks of these viewers, compared with the oracle.

    Every page but the last has to be full, unless processes die meanwhile. Nothing may be written that concerns them.
    """
    walks = await each(viewers, lambda viewer: (walk or api.walk_feed)(viewer, limit))
    wrong: list[str] = []
    async with oracle(mesh) as truth:
        for done in walks:
            found = faults(await truth.home_timeline(done.viewer_id), done)
            if full_pages:
                found += short_pages(done)
            wrong += [f"viewer {done.viewer_id}, {limit} a page: {fault}" for fault in found]
    return wrong


def oracle(mesh: Mesh) -> Oracle:
    """The oracle of a mesh."""
    postgres = mesh.addresses.postgres
    return Oracle(graph_dsn=postgres["graph"], post_dsn=postgres["post"])


async def truth_of(mesh: Mesh, viewer: int) -> list[int]:
    """What a viewer's home timeline has to be, newest first."""
    async with oracle(mesh) as truth:
        return await truth.home_timeline(viewer)


def short_pages(walk: Walk) -> list[str]:
    """What is wrong with the lengths of the pages: only the last may be short while all services answer."""
    lengths = [len(page) for page in walk.pages[:-1]]
    return [f"short pages: {lengths}"] if any(length < walk.limit for length in lengths) else []
