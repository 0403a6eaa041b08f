"""Others' posts beside one that is pushed to a million followers: `python -m tests.bench.large_push`.

It writes no results, and is no part of `make bench`: it takes minutes and two gigabytes.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import click
from devmesh.mesh import Mesh
from feedkit import key_scripts, redis
from feedkit.redis import RedisSettings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from feed_api import FeedApi
from freshness import percentile, visible_ms
from settling import settled
from stored_keys import StoredKeys
from timelines import users, warmed

SETTINGS = {
    # Nobody is pulled, however many follow them.
    "FEED_CELEBRITY_THRESHOLD": "1000000000",
    "FEED_CELEBRITY_FLOOR": "1000000000",
    # So short that a million of them fit into the memory of a small machine.
    "FEED_TIMELINE_LENGTH": "20",
}
FIRST_FOLLOWER = 1_000_000_000
"""Nobody has such an id: they are followers, whom the push asks about, and no users."""
AUTHORS = 20
POSTS_PER_SECOND = 5
AT_ONCE = 1000
LIFE_MS = 3_600_000
SETTLE_SECONDS = 900.0


@click.command()
@click.option("--followers", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("--posts", type=click.IntRange(min=2), default=50, show_default=True, help="Of others, at 5 a second.")
def main(followers: int, posts: int) -> None:
    """Tell how fresh others' posts are alone, and while a post is pushed to many."""
    with tempfile.TemporaryDirectory() as directory, Mesh(SETTINGS, directory=Path(directory)) as mesh:
        asyncio.run(_measure(mesh, followers, posts))


async def _measure(mesh: Mesh, followers: int, posts: int) -> None:
    async with FeedApi(mesh.addresses.gateway) as api, StoredKeys(mesh.addresses.redis) as stored:
        [large], [reader] = await users(api, "Large", 1), await users(api, "Reader", 1)
        authors = await users(api, "Author", AUTHORS)
        await api.follow_many(reader, authors)
        await warmed(mesh, api, stored, [reader])
        await _follow(mesh, large, followers)

        async def others() -> list[float]:
            return await visible_ms(api, authors=authors, follower=reader, per_second=POSTS_PER_SECOND, posts=posts)

        _tell("alone", await others())
        began = time.monotonic()
        await api.create_post(large, "To everybody")
        async with _until_delivered(mesh) as delivered:
            while not delivered.done():
                _tell(f"beside the push, {time.monotonic() - began:.0f} s after it began", await others())
        seconds = delivered.result() - began
        click.echo(f"delivered to {followers} followers in {seconds:.1f} s, {followers / seconds:,.0f} a second")


@asynccontextmanager
async def _until_delivered(mesh: Mesh) -> AsyncGenerator["asyncio.Task[float]"]:
    """When nothing was left to do, by the monotonic clock. Others' posts are so few that they are soon done."""

    async def wait() -> float:
        await settled(mesh, SETTLE_SECONDS)
        return time.monotonic()

    task = asyncio.create_task(wait())
    try:
        yield task
    finally:
        await task


async def _follow(mesh: Mesh, author: int, count: int) -> None:
    """Give an author followers who are active and have empty timelines."""
    ids, today = range(FIRST_FOLLOWER, FIRST_FOLLOWER + count), datetime.now(UTC).date()
    graph = await asyncpg.connect(mesh.addresses.postgres["graph"])
    try:
        await graph.copy_records_to_table(
            "follows", records=((one, author) for one in ids), columns=("follower_id", "followee_id")
        )
        await graph.copy_records_to_table(
            "activity", records=((one, today) for one in ids), columns=("user_id", "seen_on")
        )
        await graph.execute("VACUUM ANALYZE")
    finally:
        await graph.close()
    settings = RedisSettings.model_validate({"redis_url": mesh.addresses.redis, "redis_timeout_seconds": 30})
    async with redis.connect(settings) as store:
        for start in range(0, count, AT_ONCE):
            batch = ids[start : start + AT_ONCE]
            await store.run(*[key_scripts.create_timeline(one, 0, LIFE_MS) for one in batch])


def _tell(when: str, took: list[float]) -> None:
    click.echo(f"{when}: visible after {percentile(took, 50):.0f} ms (median), {percentile(took, 99):.0f} ms (p99)")


if __name__ == "__main__":
    main()
