"""Processes of `post` beside those of a mesh, whose way to their database is slow, or cut."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from devmesh.mesh import Mesh
from feed_api import FeedApi
from links import Link, link_to
from replicas import Replica, replicas, started


class SlowWriters(NamedTuple):
    """A gateway with processes of `post` whose database is at the end of a link."""

    api: FeedApi
    """It repeats what may be repeated."""
    posts: Sequence[Replica]
    database: Link


@asynccontextmanager
async def slow_writers(mesh: Mesh, directory: Path, count: int) -> AsyncGenerator[SlowWriters]:
    """So many such processes run beside those of the mesh. Their logs go into `directory`."""
    dsn = psutil.Process(mesh.addresses.pids["post"]).environ()["FEED_POSTGRES_DSN"]
    async with AsyncExitStack() as stack:
        link = await stack.enter_async_context(link_to(dsn))
        through = {"FEED_POSTGRES_DSN": link.instead_of(dsn)}
        posts = await stack.enter_async_context(replicas(mesh, "post", count, directory, settings=through))
        targets = ",".join(post.address for post in posts)
        target = {"FEED_POST_TARGET": f"ipv4:{targets}"}
        [gateway] = await stack.enter_async_context(replicas(mesh, "gateway", 1, directory, settings=target))
        await started(*posts, gateway)
        api = await stack.enter_async_context(FeedApi(f"http://{gateway.address}", patient=True))
        yield SlowWriters(api, posts, link)
