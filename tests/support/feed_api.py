"""The public API as tests use it: a client that fails loudly, and one that retries as clients of a mesh must."""

import asyncio
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
from feedctl.oracle import Walk
from feedctl.walk import walk

RETRIED = frozenset({502, 503, 504})


class FeedApi:
    """The gateway, by what people do. Every method raises for any answer but the one it stands for.

    With `patient`, calls that may be repeated are, for up to a minute, while processes are killed and come back. All
    calls here may: creates carry an idempotency key, and the rest is idempotent by contract, but for the making of users.
    """

    def __init__(self, base_url: str, *, patient: bool = False) -> None:
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        self.http = httpx.AsyncClient(base_url=base_url, timeout=30, limits=limits)
        self._patient = patient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        viewer: int | None = None,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One call, repeated where that is wanted and may help; the answer as it is."""
        sent = {**(headers or {}), **({} if viewer is None else {"X-User-Id": str(viewer)})}
        for attempt in range(120):
            try:
                response = await self.http.request(method, path, json=json, params=params, headers=sent)
            except httpx.TransportError:
                if not self._patient or attempt == 119:
                    raise
            else:
                if not self._patient or response.status_code not in RETRIED:
                    return response
            await asyncio.sleep(0.5)
        raise AssertionError(f"{method} {path}: no answer but 5xx for a minute")

    async def create_user(self, name: str) -> int:
        """A new user's id."""
        return int((await self._ok(201, "POST", "/api/users", json={"name": name}))["id"])

    async def create_post(self, author: int, content: str, **members: Any) -> dict[str, Any]:
        """A new post."""
        key = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"content": content, **members}
        return await self._ok(201, "POST", "/api/posts", viewer=author, json=body, headers=key)

    async def delete_post(self, author: int, post_id: int | str) -> None:
        """Delete one's own post."""
        await self._ok(204, "DELETE", f"/api/posts/{post_id}", viewer=author)

    async def follow(self, viewer: int, user: int) -> None:
        """Follow a user."""
        await self._ok(204, "PUT", f"/api/following/{user}", viewer=viewer)

    async def unfollow(self, viewer: int, user: int) -> None:
        """Follow a user no longer."""
        await self._ok(204, "DELETE", f"/api/following/{user}", viewer=viewer)

    async def follow_many(self, viewer: int, users: Sequence[int]) -> list[dict[str, Any]]:
        """Follow many users; the outcomes."""
        body = {"userIds": [str(user) for user in users]}
        return (await self._ok(200, "POST", "/api/following", viewer=viewer, json=body))["results"]

    async def block(self, viewer: int, user: int) -> None:
        """Block a user."""
        await self._ok(204, "PUT", f"/api/blocks/{user}", viewer=viewer)

    async def unblock(self, viewer: int, user: int) -> None:
        """Block a user no longer."""
        await self._ok(204, "DELETE", f"/api/blocks/{user}", viewer=viewer)

    async def mute(self, viewer: int, user: int) -> None:
        """Mute a user."""
        await self._ok(204, "PUT", f"/api/mutes/{user}", viewer=viewer)

    async def unmute(self, viewer: int, user: int) -> None:
        """Mute a user no longer."""
        await self._ok(204, "DELETE", f"/api/mutes/{user}", viewer=viewer)

    async def engage(self, viewer: int, post_id: int | str, engagement: str) -> dict[str, int]:
        """`like` or `repost` a post; its counts then."""
        return (await self._ok(200, "PUT", f"/api/posts/{post_id}/{engagement}", viewer=viewer))["counts"]

    async def disengage(self, viewer: int, post_id: int | str, engagement: str) -> dict[str, int]:
        """Take a `like` or a `repost` back; the counts then."""
        return (await self._ok(200, "DELETE", f"/api/posts/{post_id}/{engagement}", viewer=viewer))["counts"]

    async def give_feedback(self, viewer: int, post_id: int | str, kind: str) -> None:
        """Tell what one has against a post: `less_like_this` or `hide`."""
        await self._ok(204, "POST", f"/api/posts/{post_id}/feedback", viewer=viewer, json={"kind": kind})

    async def tell_seen(self, viewer: int, post_ids: Sequence[int | str], *, view: str, dwell_ms: int = 1000) -> int:
        """Tell which posts were seen, from the top down; how many of them were new."""
        impressions = [
            {"postId": str(post_id), "position": place, "dwellMs": dwell_ms, "view": view}
            for place, post_id in enumerate(post_ids)
        ]
        body = {"impressions": impressions}
        return (await self._ok(202, "POST", "/api/feed/impressions", viewer=viewer, json=body))["recorded"]

    async def favour(self, viewer: int, user: int) -> None:
        """Make a user a favourite."""
        await self._ok(204, "PUT", f"/api/favourites/{user}", viewer=viewer)

    async def choose_view(self, viewer: int, view: str) -> None:
        """Choose the view that is shown where a read does not say."""
        await self._ok(200, "PUT", "/api/feed/view", viewer=viewer, json={"view": view})

    async def get(self, path: str, *, viewer: int | None = None, **params: str) -> dict[str, Any]:
        """A resource, page or batch."""
        return await self._ok(200, "GET", path, viewer=viewer, params=params)

    async def feed(self, viewer: int, **params: str) -> dict[str, Any]:
        """A page of a viewer's home feed."""
        return await self.get("/api/feed", viewer=viewer, **params)

    def feed_page(self, viewer: int, limit: int, cursor: str | None) -> Awaitable[dict[str, Any]]:
        """The page of LATEST that a cursor leads to, or the first one."""
        return self.feed(viewer, view="latest", limit=str(limit), **({} if cursor is None else {"cursor": cursor}))

    async def walk_feed(self, viewer: int, limit: int) -> Walk:
        """A viewer's home feed in LATEST, page by page to its end."""
        return await walk(viewer, limit, lambda cursor: self.feed_page(viewer, limit, cursor))

    async def _ok(self, status: int, method: str, path: str, **arguments: Any) -> Any:
        response = await self.call(method, path, **arguments)
        assert response.status_code == status, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None
