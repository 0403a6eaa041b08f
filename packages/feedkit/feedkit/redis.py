"""Redis: a client that takes commands by the round trip, traced, whose failures are domain errors."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, cast

from pydantic import Field, RedisDsn
from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError, NoScriptError, ReadOnlyError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from feedkit import telemetry
from feedkit.config import Settings
from feedkit.errors import Unavailable

_AWAY = (RedisConnectionError, RedisTimeoutError, ReadOnlyError, ClusterDownError, TryAgainError)
"""Errors of a server that is away, loading its data, failing over or being moved."""

Command: TypeAlias = tuple[str | bytes | int, ...]
"""A command and its arguments; `key_scripts` makes them."""


class RedisSettings(Settings):
    """Settings of a process that uses Redis."""

    redis_url: RedisDsn = Field(description="The Redis (or Valkey) server.")
    redis_timeout_seconds: float = Field(
        default=1.0, gt=0, description="How long connecting, and waiting for an answer, may take."
    )


class Script:
    """A Lua script that works on one key."""

    _sources: dict[str, str] = {}

    def __init__(self, source: str) -> None:
        self._sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        self._sources[self._sha] = source

    def __call__(self, key: str, *arguments: str | bytes | int) -> Command:
        """The command that runs the script."""
        return ("EVALSHA", self._sha, 1, key, *arguments)


class Redis:
    """A client. Give all commands of a step to one `run`: what is dear is the round trip."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    async def run(self, *commands: Command) -> list[Any]:
        """Run commands in one round trip, and return their answers in order. Each is atomic alone, not all together.

        Raises Unavailable where Redis does not answer, or is full.
        """
        attributes = {"db.system.name": "redis", "db.operation.batch.size": len(commands)}
        with telemetry.client_span("redis", attributes):
            try:
                return await self._send(commands)
            except NoScriptError:
                for source in Script._sources.values():
                    await cast("Any", self._client).script_load(source)
                return await self._send(commands)
            except _AWAY as error:
                raise Unavailable.of_dependency("redis") from error

    async def _send(self, commands: tuple[Command, ...]) -> list[Any]:
        async with cast("Any", self._client.pipeline(transaction=False)) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute()

    async def ping(self) -> None:
        """Raise Unavailable where Redis does not answer."""
        await self.run(("PING",))


@asynccontextmanager
async def connect(settings: RedisSettings) -> AsyncGenerator[Redis]:
    """Open a client. It connects when first used."""
    client = cast("Any", redis.Redis).from_url(
        str(settings.redis_url),
        socket_connect_timeout=settings.redis_timeout_seconds,
        socket_timeout=settings.redis_timeout_seconds,
        # Once more, at once, on a new connection, because pooled ones die with a server that was restarted. The client's
        # own default waits for seconds, and runs again what timed out: long after its caller has gone, and perhaps twice.
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    )
    async with client:
        yield Redis(client)
