"""What a delivery costs on its way through our client, beside a raw socket, and how many bytes an entry takes in Redis."""

import itertools
import random
import socket
import time
from collections.abc import Iterator
from typing import Any

import hiredis
import uvloop
from devmesh.backends.valkey import Valkey
from feedkit import key_scripts, keys, redis
from feedkit.redis import Command, Redis, RedisSettings

from tests.bench.results import Result

TIMELINES = 2000
LENGTH = 800
BATCH = 400
FIRST_ID = 2**60
APART = 2**30
"""Posts a few minutes apart, as ids go."""
LIFE_MS = 28 * 86_400_000


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure; a ratio, both rates for what they are worth on this machine, and bytes."""
    with Valkey() as server:
        return uvloop.run(_measure(server, runs, seconds))


async def _measure(server: Valkey, runs: int, seconds: float) -> list[Result]:
    settings = RedisSettings.model_validate({"redis_url": server.url, "redis_timeout_seconds": 30})
    async with redis.connect(settings) as client:
        empty = await _memory(client)
        await _write_timelines(client)
        bytes_per_entry = (await _memory(client) - empty) / (TIMELINES * LENGTH)
        batches = _batches()
        await client.run(*next(batches))  # the script is loaded
        rates: list[tuple[float, float]] = []
        for _ in range(runs):
            mine = await _through_client(client, batches, seconds)
            rates.append((mine, _on_raw_socket(server.port, batches, mine, seconds)))
    return [
        Result.of(
            "deliveries.throughput_vs_raw_redis",
            [mine / raw for mine, raw in rates],
            unit="ratio",
            goal="higher",
            ceiling=1.0,
        ),
        Result.of("deliveries.per_second", [mine for mine, _ in rates], unit="1/s", goal="higher"),
        Result.of("deliveries.raw_redis.per_second", [raw for _, raw in rates], unit="1/s", goal="higher"),
        Result.of(
            "timeline.bytes_per_entry", [bytes_per_entry], unit="bytes", goal="lower", ceiling=float(keys.ENTRY_BYTES)
        ),
    ]


async def _memory(client: Redis) -> int:
    [info] = await client.run(("INFO", "memory"))
    return next(int(line.partition(b":")[2]) for line in info.splitlines() if line.startswith(b"used_memory:"))


async def _write_timelines(client: Redis) -> None:
    """Full timelines, so that every delivery trims."""
    authors = random.Random(1)
    trailer = keys.encode_trailer(keys.Trailer(0, 0, key_scripts.new_epoch()))
    for viewer in range(TIMELINES):
        entries = [(FIRST_ID + place * APART, authors.randrange(2**28)) for place in range(LENGTH)]
        await client.run(("SET", keys.timeline(viewer), keys.encode_entries(entries) + trailer, "PX", LIFE_MS))


def _batches() -> Iterator[list[Command]]:
    """Post after post to all timelines, a batch of deliveries at a time."""
    for place in itertools.count(LENGTH):
        entry = keys.encode_entries([(FIRST_ID + place * APART, 7)])
        for start in range(0, TIMELINES, BATCH):
            yield [key_scripts.push(viewer, entry, LENGTH) for viewer in range(start, start + BATCH)]


async def _through_client(client: Redis, batches: Iterator[list[Command]], seconds: float) -> float:
    """Deliveries a second as `fanout` makes them, one batch after the other, the making of the commands included."""
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        answers: list[Any] = await client.run(*next(batches))
        count += sum(answers)
    return count / (time.perf_counter() - began)


def _on_raw_socket(port: int, batches: Iterator[list[Command]], expected: float, seconds: float) -> float:
    """Deliveries a second where nothing is done but send bytes that are there and read those that come."""
    packed = [
        b"".join(hiredis.pack_command(command) for command in next(batches))  # pyright: ignore
        for _ in range(max(1, round(expected * seconds / BATCH)))
    ]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        for batch in packed:
            connection.sendall(batch)
            answered = 0
            while answered < BATCH:
                received = connection.recv(65536)
                if not received or b"-" in received:
                    raise RuntimeError(received.decode(errors="replace"))
                answered += received.count(b"\n")
        return len(packed) * BATCH / (time.perf_counter() - began)
