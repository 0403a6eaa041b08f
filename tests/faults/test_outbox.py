"""What was acknowledged is published, however late it became visible, and whatever its neighbours in the outbox are."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import asyncpg
import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedkit import kafka
from limits import LENGTH, THRESHOLD
from outages import killed, silent
from settling import settled
from slow_writers import slow_writers
from stored_keys import StoredKeys
from timelines import users, warmed
from walks import each

pytestmark = pytest.mark.integration

WRITERS = 64
POSTS = 3
READERS = 16
CUTS = 6
LATEST_SECONDS = 0.3
"""By how much the answers of the database are late at most, on a connection."""


async def leave_gap(mesh: Mesh) -> int:
    """Die in the midst of a transaction that has an id of the outbox; the id."""
    connection = await asyncpg.connect(mesh.addresses.postgres["post"])
    await connection.execute("BEGIN")
    insert = "INSERT INTO outbox (topic, key, type, payload, headers) VALUES ($1, '1', 'T', '', '{}') RETURNING id"
    gap: int = await connection.fetchval(insert, kafka.POST_EVENTS)
    connection.terminate()
    return gap


async def readers_of(mesh: Mesh, api: FeedApi, stored: StoredKeys, authors: Sequence[int]) -> dict[int, Sequence[int]]:
    """Readers whose timelines stand, and whom of the authors each follows: few enough for a timeline that is not cut."""
    # Fewer followers than make an author pulled.
    assert THRESHOLD > 1
    assert len(authors) // READERS * POSTS <= LENGTH
    readers = {reader: authors[number::READERS] for number, reader in enumerate(await users(api, "Reader", READERS))}
    await each(readers.items(), lambda follows: api.follow_many(*follows))
    await warmed(mesh, api, stored, [*readers])
    return readers


async def assert_published(
    stored: StoredKeys, readers: Mapping[int, Sequence[int]], acknowledged: Mapping[int, Sequence[int]]
) -> None:
    """Fail unless each reader's timeline has every post that was acknowledged, once."""
    for reader, followed in readers.items():
        written = sorted((post for author in followed for post in acknowledged[author]), reverse=True)
        assert await stored.timeline_ids(reader) == written


async def test_hand_12_rows_that_commit_late_and_those_that_never_do_cost_no_other(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, tmp_path: Path
) -> None:
    authors = await users(api, "Author", WRITERS)
    readers = await readers_of(mesh, api, stored, authors)
    acknowledged: dict[int, list[int]] = defaultdict(list)
    gaps: list[int] = []
    chance = random.Random(12)
    async with slow_writers(mesh, tmp_path, 2) as there:
        there.database.seconds = lambda: chance.uniform(0, LATEST_SECONDS)
        await there.database.cut()

        async def write(author: int) -> None:
            for number in range(POSTS):
                post = await there.api.create_post(author, f"Post {number}")
                acknowledged[author].append(int(post["id"]))

        async def cut() -> None:
            for _ in range(CUTS):
                await asyncio.sleep(0.5)
                gaps.append(await leave_gap(mesh))
                await there.database.cut(5)

        await asyncio.gather(cut(), *map(write, authors))
    await settled(mesh, 30)
    await assert_published(stored, readers, acknowledged)
    assert gaps == sorted(set(gaps)), "each between rows that were published"


async def test_hand_13_relays_that_are_killed_and_stopped_and_a_silent_broker_lose_and_double_nothing(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    authors = await users(api, "Author", WRITERS)
    readers = await readers_of(mesh, api, stored, authors)
    acknowledged: dict[int, list[int]] = defaultdict(list)

    async def write() -> None:
        for number in range(POSTS):
            for author in authors:
                acknowledged[author].append(int((await api.create_post(author, f"Post {number}"))["id"]))
                await asyncio.sleep(0.01)

    async def disturb() -> None:
        await killed(mesh, "post-relay")
        assert await asyncio.to_thread(mesh.terminate, "post-relay") == 0
        await asyncio.to_thread(mesh.restart, "post-relay")
        async with silent(mesh, "kafka"):
            await asyncio.sleep(1)
            # What is on its way cannot arrive, and is given up within the grace.
            assert await asyncio.to_thread(mesh.terminate, "post-relay") == 0
        await asyncio.to_thread(mesh.restart, "post-relay")

    await asyncio.gather(write(), disturb())
    await settled(mesh, 30)
    await assert_published(stored, readers, acknowledged)
