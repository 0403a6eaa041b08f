"""How long it takes from an author's request until the post is in a follower's feed, at 20 posts a second."""

import asyncio
import tempfile
from pathlib import Path

from devmesh.mesh import Mesh
from feed_api import FeedApi
from freshness import percentile, visible_ms
from stored_keys import StoredKeys
from timelines import users, warmed

from tests.bench.results import Result

POSTS_PER_SECOND = 20
AUTHORS = 50


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure."""
    with tempfile.TemporaryDirectory() as directory, Mesh(directory=Path(directory)) as mesh:
        took = asyncio.run(_measure(mesh, runs, posts=max(2, int(POSTS_PER_SECOND * seconds))))
    return [
        Result.of(f"fanout.visible_ms.p{percent}", [percentile(one, percent) for one in took], unit="ms", goal="lower")
        for percent in (50, 99)
    ]


async def _measure(mesh: Mesh, runs: int, posts: int) -> list[list[float]]:
    async with FeedApi(mesh.addresses.gateway) as api, StoredKeys(mesh.addresses.redis) as stored:
        authors, [follower] = await users(api, "Author", AUTHORS), await users(api, "Follower", 1)
        await api.follow_many(follower, authors)
        await warmed(mesh, api, stored, [follower])
        return [
            await visible_ms(api, authors=authors, follower=follower, per_second=POSTS_PER_SECOND, posts=posts)
            for _ in range(runs)
        ]
