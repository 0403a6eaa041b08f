"""Walks of home timelines through the public API."""

from typing import Any

import httpx

from feedctl.oracle import Walk

MOST_REQUESTS = 100_000
"""A walk that asks more often than this is taken to be one that never ends."""


class WalkError(Exception):
    """A page could not be read; the message says which and why."""


async def walk_home_timeline(
    gateway: httpx.AsyncClient, viewer_id: int, limit: int, *, most_requests: int = MOST_REQUESTS
) -> Walk:
    """Read a viewer's LATEST timeline from the top to its end, `limit` posts a page.

    `gateway` has the base URL. The end is an absent `nextCursor`, and nothing else. Raises WalkError for any answer that
    is no page.
    """
    pages: list[tuple[int, ...]] = []
    cursors: list[str] = []
    cursor: str | None = None
    while len(pages) < most_requests:
        page = await _page(gateway, viewer_id, limit, cursor)
        pages.append(tuple(int(item["id"]) for item in page["items"]))
        cursor = page.get("nextCursor")
        if cursor is None:
            return Walk(viewer_id, limit, tuple(pages), tuple(cursors))
        cursors.append(cursor)
    raise WalkError(f"viewer {viewer_id}: no end after {most_requests} requests")


async def _page(gateway: httpx.AsyncClient, viewer_id: int, limit: int, cursor: str | None) -> dict[str, Any]:
    parameters: dict[str, str] = {"limit": str(limit)}
    if cursor is not None:
        parameters["cursor"] = cursor
    try:
        response = await gateway.get("/api/feed", params=parameters, headers={"X-User-Id": str(viewer_id)})
    except httpx.HTTPError as error:
        raise WalkError(f"viewer {viewer_id}, cursor {cursor}: {type(error).__name__} {error}") from error
    if not response.is_success:
        raise WalkError(f"viewer {viewer_id}, cursor {cursor}: {response.status_code} {response.text}")
    return response.json()
