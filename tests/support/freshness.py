"""How long it takes until a post is visible: from the author's request to the follower's feed that shows it."""

import asyncio
import statistics
import time
from collections.abc import Sequence

from feed_api import FeedApi

SECONDS_BETWEEN_LOOKS = 0.005
SECONDS_TO_WAIT = 30.0
"""How long a post may stay invisible before it is given up."""


async def visible_ms(
    api: FeedApi, *, authors: Sequence[int], follower: int, per_second: float, posts: int
) -> list[float]:
    """The authors post in turn, `per_second` in all, while a follower of them all keeps looking at the top of their feed.

    Milliseconds for each post, in no order. TimeoutError when one does not show.
    """
    sent: dict[str, float] = {}
    seen: dict[str, float] = {}
    started = time.perf_counter()

    async def write(number: int) -> None:
        await asyncio.sleep(started + number / per_second - time.perf_counter())
        called = time.perf_counter()
        created = await api.create_post(authors[number % len(authors)], f"Post {number}")
        sent[created["id"]] = called

    async def look() -> None:
        while len(seen.keys() & sent.keys()) < posts:
            page = await api.feed(follower, limit="50")
            now = time.perf_counter()
            for item in page["items"]:
                seen.setdefault(item["id"], now)
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    async with asyncio.timeout(posts / per_second + SECONDS_TO_WAIT):
        await asyncio.gather(look(), *map(write, range(posts)))
    return [(seen[post] - called) * 1000 for post, called in sent.items()]


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which so many percent of the values are."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
