"""Walks of home feeds that are checked for everything that a walk has to be."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from feed_api import FeedApi
from feedctl.oracle import faults
from feedctl.walk import walk
from walks import short_pages

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


async def nothing() -> None:
    """What befalls a viewer whom nothing befalls."""


async def walk_faults(
    api: FeedApi,
    viewer: int,
    limit: int,
    expected: Sequence[int],
    before_page: Callable[[], Awaitable[None]] = nothing,
) -> list[str]:
    """What is wrong with a walk from the top to the end, `limit` posts a page, a sentence each.

    It has to be strictly descending by time and id, with nothing twice and no more than `limit` on a page, and its set
    has to be the expected one; while all services answer only the last page may be short. `before_page` is awaited before
    each. AssertionError where the end does not come.
    """
    positions: list[tuple[int, int]] = []
    most_requests = -(-len(expected) // limit) + 10
    requests = 0

    async def read_page(cursor: str | None) -> dict[str, Any]:
        nonlocal requests
        requests += 1
        assert requests <= most_requests, f"viewer {viewer}, {limit} a page: no end after {most_requests} requests"
        await before_page()
        page = await api.feed_page(viewer, limit, cursor)
        positions.extend(map(position, page["items"]))
        return page

    walked = await walk(viewer, limit, read_page)
    found = faults(expected, walked) + short_pages(walked)
    if any(earlier <= later for earlier, later in pairwise(positions)):
        found.append("not in descending order of time and id")
    return found


def position(item: dict[str, Any]) -> tuple[int, int]:
    """Where a post of a feed stands in its order: Unix milliseconds and id."""
    return (datetime.fromisoformat(item["createdAt"]) - _EPOCH) // timedelta(milliseconds=1), int(item["id"])
