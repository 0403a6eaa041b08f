"""A real broker refuses all that comes in one piece with what is too large; only that is set aside, and comes back."""

import asyncio
import os
import re
from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import admin as _admin
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from devmesh.servers import Servers
from feedctl.__main__ import main
from feedkit import kafka
from outages import stopped
from polling import until

from tests.servers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.integration, pytest.mark.real]

# Published with too few types.
admin = cast("Any", _admin)

MOST_BYTES = 20_000
TOO_LARGE = 30_000
SMALL = 100
AUTHORS = 2000
REFUSED_SECONDS = 3.0


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """The service `post` with its relay, graph, which it needs, and a broker."""
    needed = [process for process in PROCESSES if process.name in ("post", "post-relay", "graph")]
    settings = {"FEED_OUTBOX_REFUSED_SECONDS": str(REFUSED_SECONDS)}
    with Mesh(
        settings,
        directory=tmp_path_factory.mktemp("mesh"),
        processes=needed,
        servers=Servers(kafka=ApacheKafka),
    ) as mesh:
        yield mesh


def take_at_most(mesh: Mesh, count: int) -> None:
    """Let the broker take no larger pieces of a topic from now on."""
    value = admin.ConfigEntry("max.message.bytes", str(count), incremental_operation=admin.AlterConfigOpType.SET)
    topic = admin.ConfigResource(admin.ResourceType.TOPIC, kafka.POST_EVENTS, incremental_configs=[value])
    administrator = admin.AdminClient({"bootstrap.servers": mesh.addresses.kafka})
    administrator.incremental_alter_configs([topic])[topic].result()


def published(mesh: Mesh) -> list[str]:
    """The keys of all records of the topic."""
    reader = Consumer({"bootstrap.servers": mesh.addresses.kafka, "group.id": "test", "enable.auto.commit": False})
    try:
        partitions = reader.list_topics(kafka.POST_EVENTS, 5).topics[kafka.POST_EVENTS].partitions
        reader.assign([TopicPartition(kafka.POST_EVENTS, partition, 0) for partition in partitions])
        found = reader.consume(10_000, 2.0)
        return [(message.key() or b"").decode() for message in found if message.error() is None]
    finally:
        reader.close()


async def test_what_came_with_too_large_an_event_is_published_and_that_is_set_aside_until_it_is_replayed(
    mesh: Mesh, tmp_path: Path
) -> None:
    await asyncio.to_thread(take_at_most, mesh, MOST_BYTES)
    insert = "INSERT INTO outbox (topic, key, type, payload, headers) VALUES ($1, $2, 'T', $3, '{}')"
    # They are random, so that no codec makes them small.
    events = [(kafka.POST_EVENTS, str(author), os.urandom(SMALL)) for author in range(1, AUTHORS + 1)]
    too_large = (kafka.POST_EVENTS, str(AUTHORS + 1), os.urandom(TOO_LARGE))
    async with AsyncExitStack() as stack:
        sql = await asyncpg.connect(mesh.addresses.postgres["post"])
        stack.push_async_callback(sql.close)
        async with stopped(mesh, "post-relay"):
            # All wait together, so that they come in large pieces.
            await sql.executemany(insert, [*events, too_large])

        async def is_empty() -> bool:
            return not await sql.fetchval("SELECT count(*) FROM outbox")

        await until(is_empty, "an empty outbox")
        assert await sql.fetchval("SELECT array_agg(key) FROM outbox_set_aside") == [str(AUTHORS + 1)]
        refused = re.findall(r'"shard": \d+, "events": (\d+)', mesh.log("post-relay"))
        assert sum(map(int, refused)) > 1, "others were in one piece with it"
        assert sorted(map(int, set(published(mesh)))) == list(range(1, AUTHORS + 1))

        state = tmp_path / "state.json"
        state.write_text(mesh.addresses.to_json())
        runner = CliRunner(env={"COLUMNS": "300"})
        listed = await asyncio.to_thread(runner.invoke, main, ["--state", str(state), "outbox", "list"])
        assert listed.exit_code == 0, listed.output
        assert all(word in listed.output for word in (kafka.POST_EVENTS, str(AUTHORS + 1), "1 events"))

        await asyncio.to_thread(take_at_most, mesh, 1_000_000)
        replay = ["--state", str(state), "outbox", "replay", "post", "--all"]
        replayed = await asyncio.to_thread(runner.invoke, main, replay)
        assert (replayed.exit_code, replayed.output) == (0, "1 events are published once more\n")
        await until(is_empty, "an empty outbox")
        assert str(AUTHORS + 1) in published(mesh)
        assert not await sql.fetchval("SELECT count(*) FROM outbox_set_aside")
        again = await asyncio.to_thread(runner.invoke, main, [*replay[:-1], "1"])
        assert (again.exit_code, "not set aside: 1" in again.output) == (1, True)
