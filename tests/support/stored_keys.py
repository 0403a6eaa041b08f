"""What a mesh keeps in Redis, be it one server or a cluster, read and destroyed past every service."""

from types import TracebackType
from typing import Any, Self, cast

from feedkit import keys
from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError


class StoredKeys:
    """The keys in the Redis of a mesh. An asynchronous context manager."""

    def __init__(self, url: str) -> None:
        self._url = url
        # Once more on a new connection, because the server may have been killed since.
        retry = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
        self._client: Any = cast("Any", redis.Redis).from_url(url, retry=retry)

    async def __aenter__(self) -> Self:
        if (await self._client.info("cluster"))["cluster_enabled"]:
            await self._client.aclose()
            self._client = cast("Any", redis.RedisCluster).from_url(self._url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def names(self) -> list[str]:
        """The names of all keys."""
        return [name.decode() for name in await self._client.keys("*")]

    async def delete(self, *names: str) -> None:
        """Let keys vanish."""
        await self._client.delete(*names)

    async def delete_viewer(self, viewer: int) -> None:
        """Let everything vanish that is kept for a viewer alone."""
        await self.delete(keys.timeline(viewer), keys.context(viewer), keys.own(viewer))

    async def flush(self) -> None:
        """Let everything vanish."""
        await self._client.flushall()

    async def timeline(self, viewer: int) -> keys.Tail | None:
        """A viewer's home timeline, all of it."""
        return keys.decode_timeline(await self._client.getrange(keys.timeline(viewer), 0, -1))

    async def timeline_ids(self, viewer: int) -> list[int]:
        """The posts in a viewer's home timeline, newest first. There has to be one."""
        tail = await self.timeline(viewer)
        assert tail is not None, f"viewer {viewer} has no timeline"
        post_ids, _ = tail.columns(0, tail.length)
        return [*reversed(post_ids)]

    async def expire(self, name: str, life_ms: int) -> None:
        """Let a key live for so many milliseconds from now, if it is there."""
        await self._client.pexpire(name, life_ms)

    async def life_ms(self, name: str) -> int:
        """How long a key is going to live, in milliseconds: -1 for ever, -2 if it is not there."""
        return await self._client.pttl(name)
