"""Walks of home timelines through the public API."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from feedctl.oracle import Walk

MOST_REQUESTS = 100_000
"""A walk that asks more often than this is taken to be one that never ends."""


class WalkError(Exception):
    """A page could not be read; the message says which and why."""


async def walk(viewer_id: int, limit: int, read_page: Callable[[str | None], Awaitable[dict[str, Any]]]) -> Walk:
    """Read page after page, each by the cursor of the one before, until one comes without `nextCursor`: nothing else is
    the end. Raises WalkError where it never comes.
    """
    pages: list[tuple[int, ...]] = []
    cursors: list[str] = []
    while len(pages) < MOST_REQUESTS:
        page = await read_page(cursors[-1] if cursors else None)
        pages.append(tuple(int(item["id"]) for item in page["items"]))
        if "nextCursor" not in page:
            return Walk(viewer_id, limit, tuple(pages), tuple(cursors))
        cursors.append(page["nextCursor"])
    raise WalkError(f"viewer {viewer_id}: no end after {MOST_REQUESTS} requests")


async def walk_home_timeline(gateway: httpx.AsyncClient, viewer_id: int, limit: int) -> Walk:
    """Walk a viewer's LATEST timeline from the top to its end, `limit` posts a page, through the gateway.

    Raises WalkError for any answer that is no page.
    """
    return await walk(viewer_id, limit, lambda cursor: _page(gateway, viewer_id, limit, cursor))


async def _page(gateway: httpx.AsyncClient, viewer_id: int, limit: int, cursor: str | None) -> dict[str, Any]:
    # Whatever view the viewer has chosen.
    parameters = {"view": "latest", "limit": str(limit)}
    if cursor is not None:
        parameters["cursor"] = cursor
    try:
        response = await gateway.get("/api/feed", params=parameters, headers={"X-User-Id": str(viewer_id)})
    except httpx.HTTPError as error:
        raise WalkError(f"viewer {viewer_id}, cursor {cursor}: {type(error).__name__} {error}") from error
    if not response.is_success:
        raise WalkError(f"viewer {viewer_id}, cursor {cursor}: {response.status_code} {response.text}")
    return response.json()
