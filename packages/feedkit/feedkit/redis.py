"""Redis: a traced client whose failures are domain errors."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from pydantic import Field, RedisDsn
from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError, ReadOnlyError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from feedkit import telemetry
from feedkit.config import Settings
from feedkit.errors import Unavailable

_AWAY = (RedisConnectionError, RedisTimeoutError, ReadOnlyError, ClusterDownError, TryAgainError)
"""Errors of a server that is away, loading its data, failing over or being moved."""


class RedisSettings(Settings):
    """Settings of a process that uses Redis."""

    redis_url: RedisDsn = Field(description="The Redis (or Valkey) server.")
    redis_timeout_seconds: float = Field(
        default=1.0, gt=0, description="How long connecting, and waiting for an answer, may take."
    )


class TracedRedis(redis.Redis):
    """A client that records a span for each round trip of a recorded request."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run one command. Raises Unavailable where Redis does not answer."""
        command = str(args[0])
        attributes = {"db.system.name": "redis", "db.operation.name": command}
        with telemetry.client_span(f"redis {command}", attributes):
            try:
                return await cast("Any", super()).execute_command(*args, **options)
            except _AWAY as error:
                raise Unavailable.of_dependency("redis") from error

    async def pipelined(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Run several commands in one round trip, without MULTI. Answers in order; a command's own error is raised."""
        attributes = {"db.system.name": "redis", "db.operation.batch.size": len(commands)}
        with telemetry.client_span("redis PIPELINE", attributes):
            try:
                async with cast("Any", self.pipeline(transaction=False)) as pipeline:
                    for command in commands:
                        pipeline.execute_command(*command)
                    return await pipeline.execute()
            except _AWAY as error:
                raise Unavailable.of_dependency("redis") from error


@asynccontextmanager
async def connect(settings: RedisSettings) -> AsyncGenerator[TracedRedis]:
    """Open a client. It connects when first used."""
    client = cast("Any", TracedRedis).from_url(
        str(settings.redis_url),
        socket_connect_timeout=settings.redis_timeout_seconds,
        socket_timeout=settings.redis_timeout_seconds,
        # Once more, at once, on a new connection, because pooled ones die with a server that was restarted. The client's
        # own default waits for seconds, and runs again what timed out: long after its caller has gone, and perhaps twice.
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    )
    async with client:
        yield client
