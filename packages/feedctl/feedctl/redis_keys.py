"""The keys in Redis, looked at past every service: be it one server, or a cluster, which tells so itself."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from redis import asyncio as redis
from redis.exceptions import ResponseError

_Redis, _RedisCluster = cast("Any", redis.Redis), cast("Any", redis.RedisCluster)


class RedisKeys:
    """Every method raises redis.RedisError where Redis does not answer."""

    def __init__(self, client: Any) -> None:
        """`client` is of redis-py, for one server or for a cluster."""
        self._client = client
        self._is_cluster = isinstance(client, redis.RedisCluster)

    async def values(self, names: Sequence[str] | Sequence[bytes]) -> list[bytes | None]:
        """The values of keys; None where there is none."""
        if not names:
            return []
        return await (self._client.mget_nonatomic(names) if self._is_cluster else self._client.mget(names))

    async def exist(self, names: Sequence[str]) -> list[bool]:
        """Whether each of some keys is there."""
        async with self._client.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.exists(name)
            return [*map(bool, await pipeline.execute())]

    async def count(self) -> int:
        """How many keys there are."""
        return sum([await self._client.dbsize(**at_server) for at_server in self._servers()])

    async def pages(self, pattern: str, looked_at: int) -> AsyncGenerator[list[bytes]]:
        """All keys whose names match, in pages for each of which about so many keys are looked at."""
        for at_server in self._servers():
            cursor: int | None = None
            while cursor != 0:
                told, names = await self._client.scan(cursor or 0, match=pattern, count=looked_at, **at_server)
                yield names
                # A cluster tells the cursor of each server that was asked: of this one.
                (cursor,) = told.values() if self._is_cluster else (told,)

    def _servers(self) -> Sequence[Mapping[str, Any]]:
        """Arguments that send a command to each server that has keys of its own."""
        return [{"target_nodes": server} for server in self._client.get_primaries()] if self._is_cluster else [{}]


@asynccontextmanager
async def keys_in(url: str) -> AsyncGenerator[RedisKeys]:
    """Open the Redis at a URL. Raises redis.RedisError where it does not answer."""
    async with _Redis.from_url(url) as client:
        if not await _is_of_cluster(client):
            yield RedisKeys(client)
            return
    async with _RedisCluster.from_url(url) as cluster:
        yield RedisKeys(cluster)


async def _is_of_cluster(client: Any) -> bool:
    try:
        return bool((await client.info("cluster")).get("cluster_enabled"))
    except ResponseError:
        return False  # those who keep such things to themselves take every key at the one address
