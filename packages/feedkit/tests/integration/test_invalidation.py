"""Caches are told of changes before these are acknowledged, or as soon after that as Redis answers."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager

import pytest
from devmesh.backends.valkey import Valkey
from feedkit import key_scripts, redis
from feedkit.errors import Unavailable
from feedkit.invalidation import Invalidation
from feedkit.redis import Redis, RedisSettings

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[Valkey]:
    """A server of the test's own, which it may freeze."""
    with Valkey() as valkey:
        yield valkey


@pytest.fixture
async def client(server: Valkey) -> AsyncIterator[Redis]:
    async with redis.connect(RedisSettings.model_validate({"redis_url": server.url})) as client:
        await client.run(("SET", "stale", "Vold"), ("SET", "other", "Vold"))
        yield client


@contextmanager
def frozen(server: Valkey) -> Generator[None]:
    """While this lasts the server takes what it is sent and says nothing."""
    assert server.child
    os.kill(server.child.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.child.pid, signal.SIGCONT)


async def held(client: Redis, key: str) -> bytes | None:
    (value,) = await client.run(("GET", key))
    return value


async def until_gone(client: Redis, key: str) -> None:
    """Wait until a key is not there, with a server that has yet to come back."""
    async with asyncio.timeout(10):
        while True:
            try:
                if await held(client, key) is None:
                    return
            except Unavailable:
                pass  # asked again below
            await asyncio.sleep(0.02)


async def test_a_key_is_gone_when_it_has_been_forgotten(client: Redis) -> None:
    async with Invalidation(client) as invalidation:
        await invalidation.forget("stale")
    assert await held(client, "stale") is None
    assert await held(client, "other") == b"Vold"


async def test_what_brings_a_key_up_to_date_leaves_it_there(client: Redis) -> None:
    async with Invalidation(client) as invalidation:
        await invalidation.change([("SET", "stale", "Vnew")], stale=["stale"])
    assert await held(client, "stale") == b"Vnew"


async def test_a_key_is_deleted_where_it_cannot_be_brought_up_to_date(client: Redis) -> None:
    await client.run(("CONFIG", "SET", "maxmemory", 1))
    async with Invalidation(client) as invalidation:
        await invalidation.change([("SET", "stale", "Vnew")], stale=["stale"])
    assert await held(client, "stale") is None


async def test_a_silent_server_is_told_when_it_answers_again_and_delays_no_change_for_long(
    client: Redis, server: Valkey
) -> None:
    async with Invalidation(client) as invalidation:
        with frozen(server):
            for key in ("stale", "other"):
                began = time.monotonic()
                await invalidation.change([("SET", key, "Vnew")], stale=[key])
                assert time.monotonic() - began < 0.9
        await until_gone(client, "stale")
        await until_gone(client, "other")


async def test_a_silent_server_finds_the_change_before_whatever_it_is_asked_later(
    client: Redis, server: Valkey
) -> None:
    async with (
        redis.connect(RedisSettings.model_validate({"redis_url": server.url})) as reader,
        Invalidation(client) as invalidation,
    ):
        # Connected, and quiet during the silence, of which it therefore knows nothing.
        await reader.ping()
        for _ in range(5):
            await client.run(("SET", "stale", "Vold"))
            with frozen(server):
                # Known to be away when the change is made.
                await invalidation.forget("other")
                await invalidation.forget("stale")
            await reader.ping()
            await reader.ping()
            assert await held(reader, "stale") is None
            await until_gone(client, "stale")


async def test_a_server_that_was_told_late_is_told_of_later_changes_too(client: Redis, server: Valkey) -> None:
    async with Invalidation(client) as invalidation:
        for _ in range(2):
            await client.run(("SET", "stale", "Vold"))
            with frozen(server):
                await invalidation.forget("stale")
            await until_gone(client, "stale")


async def test_a_fill_that_began_before_the_silence_is_refused_after_it(client: Redis, server: Valkey) -> None:
    token = key_scripts.new_token()
    await client.run(key_scripts.forget("stale"), key_scripts.take_lease("stale", token))
    async with Invalidation(client) as invalidation:
        with frozen(server):
            await invalidation.forget("stale")
        await until_gone(client, "stale")
    assert await client.run(key_scripts.fill("stale", token, b"old", 10_000)) == [0]


async def test_the_end_does_not_wait_for_a_server_that_is_away(client: Redis, server: Valkey) -> None:
    await asyncio.to_thread(server.kill)
    began = time.monotonic()
    async with Invalidation(client) as invalidation:
        await invalidation.forget("stale")
    assert time.monotonic() - began < 1.5
