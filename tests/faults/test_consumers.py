"""Consumers on a real broker: nothing is lost, doubled or committed twice, whoever is slow, frozen, new or moved."""

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import limits
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from devmesh.mesh import Mesh
from devmesh.servers import Servers
from feed_api import FeedApi
from feedkit import kafka
from links import Link, link_to
from outages import stopped
from polling import until
from replicas import replicas, started
from settling import settled
from stored_keys import StoredKeys
from timelines import users, warmed

from tests.servers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.integration, pytest.mark.real]

SESSION_SECONDS = 2.0
GROUPS = {kafka.POST_EVENTS: "feed.fanout.posts", kafka.FANOUT_CHUNKS: "feed.fanout.chunks"}
SETTINGS = {**limits.SETTINGS, "FEED_KAFKA_SESSION_SECONDS": str(SESSION_SECONDS)}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """A mesh on Apache Kafka."""
    with Mesh(SETTINGS, directory=tmp_path_factory.mktemp("kafka"), servers=Servers(kafka=ApacheKafka)) as mesh:
        yield mesh


class Community:
    """Authors, readers of all of them whose timelines stand, and what was acknowledged."""

    def __init__(self, mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
        self._mesh = mesh
        self._api = api
        self._stored = stored
        self._authors: Sequence[int] = ()
        self._readers: Sequence[int] = ()
        self._written: list[int] = []

    async def settle_down(self, authors: int) -> None:
        """Let so many authors have three readers, who warm their timelines."""
        self._authors = await users(self._api, "Author", authors)
        self._readers = await users(self._api, "Reader", limits.THRESHOLD - 1)
        for reader in self._readers:
            await self._api.follow_many(reader, self._authors)
        await warmed(self._mesh, self._api, self._stored, self._readers)

    async def write(self, posts: int, pause: float = 0.0) -> None:
        """The authors post in turn."""
        for number in range(posts):
            author = self._authors[number % len(self._authors)]
            post = await self._api.create_post(author, f"Post {number}")
            self._written.insert(0, int(post["id"]))
            await asyncio.sleep(pause)

    async def is_complete(self) -> None:
        """Fail unless each reader's timeline has every post once, when all has settled."""
        await settled(self._mesh, 60)
        for reader in self._readers:
            assert await self._stored.timeline_ids(reader) == self._written[: limits.LENGTH]


@pytest.fixture
async def community(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> Community:
    """One of the test's own, of four authors."""
    community = Community(mesh, api, stored)
    await community.settle_down(4)
    return community


def committed(brokers: str) -> dict[tuple[str, int], int]:
    """What the groups have committed of each partition, as far as they have."""
    found: dict[tuple[str, int], int] = {}
    for topic, group in GROUPS.items():
        asker = Consumer({"bootstrap.servers": brokers, "group.id": group, "log_level": 0})
        try:
            places = [TopicPartition(topic, number) for number in asker.list_topics(topic, 5).topics[topic].partitions]
            found |= {
                (topic, place.partition): place.offset for place in asker.committed(places, 5) if place.offset > 0
            }
        finally:
            asker.close()
    return found


@asynccontextmanager
async def offsets_never_go_back(mesh: Mesh) -> AsyncGenerator[None]:
    """Look at what is committed again and again within the block; fail where it has become less."""
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    ending = asyncio.Event()

    async def watch() -> None:
        while not ending.is_set():
            try:
                now = await asyncio.to_thread(committed, mesh.addresses.kafka)
            except KafkaException:
                continue  # the broker is being restarted
            for place, offset in now.items():
                seen[place].append(offset)
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    yield
    ending.set()
    await watching
    assert seen
    assert all(offsets == sorted(offsets) for offsets in seen.values())


@asynccontextmanager
async def slow_redis(mesh: Mesh) -> AsyncGenerator[Link]:
    """Fan-out's way to Redis is slow within the block: its batches take longer than a consumer may go without polling."""
    async with link_to(mesh.addresses.redis) as link:
        link.seconds = lambda: SESSION_SECONDS / 4
        await asyncio.to_thread(mesh.terminate, "fanout")
        slow = {"FEED_REDIS_URL": link.instead_of(mesh.addresses.redis), "FEED_REDIS_TIMEOUT_SECONDS": "10"}
        await asyncio.to_thread(mesh.restart, "fanout", slow)
        try:
            yield link
        finally:
            await asyncio.to_thread(mesh.terminate, "fanout")
            await asyncio.to_thread(mesh.restart, "fanout", {"FEED_REDIS_URL": mesh.addresses.redis})


async def at_full_speed(link: Link) -> None:
    """Let a link be slow no longer."""
    link.seconds = float
    await link.cut()


async def test_hand_15_a_frozen_consumer_commits_nothing_for_what_others_have_taken_over(
    mesh: Mesh, community: Community, tmp_path: Path
) -> None:
    async with (
        slow_redis(mesh) as link,
        replicas(mesh, "fanout", 1, tmp_path) as [other],
        offsets_never_go_back(mesh),
    ):
        await community.write(8)
        await asyncio.sleep(0.3)  # it is in the midst of a batch now
        frozen = mesh.addresses.pids["fanout"]
        os.kill(frozen, signal.SIGSTOP)
        try:
            await started(other)
            await community.write(4)
            await asyncio.sleep(2 * SESSION_SECONDS)
        finally:
            os.kill(frozen, signal.SIGCONT)
        await community.write(4)
        await at_full_speed(link)
        await settled(mesh, 60)
        assert mesh.addresses.pids["fanout"] == frozen, "it goes on by itself"
        assert await other.terminate() == 0
    await community.is_complete()


async def test_hand_15_slow_batches_rebalances_and_a_restarted_broker_lose_and_double_nothing(
    mesh: Mesh, community: Community, tmp_path: Path
) -> None:
    async with (
        slow_redis(mesh) as link,
        replicas(mesh, "fanout", 3, tmp_path) as others,
        offsets_never_go_back(mesh),
    ):
        writing = asyncio.create_task(community.write(16, pause=0.2))
        await started(*others)
        for other in others[:2]:
            assert await other.terminate() == 0
        await asyncio.to_thread(mesh.terminate, "kafka")
        await asyncio.to_thread(mesh.restart, "kafka")
        await writing
        await at_full_speed(link)
        await settled(mesh, 60)
        assert await others[2].terminate() == 0
    await community.is_complete()


async def test_hand_16_a_group_that_begins_reads_all_that_was_written_before(mesh: Mesh, community: Community) -> None:
    async with stopped(mesh, "fanout"):
        await community.write(16)
        groups = AdminClient({"bootstrap.servers": mesh.addresses.kafka})
        for group, deleted in cast("Any", groups).delete_consumer_groups([*GROUPS.values()]).items():
            assert deleted.result() is None, group
        assert await asyncio.to_thread(committed, mesh.addresses.kafka) == {}
    # It reads everything once more, too.
    await community.is_complete()


async def test_hand_16_partitions_that_are_added_under_load_are_read_from_their_first_record(
    mesh: Mesh, api: FeedApi, stored: StoredKeys
) -> None:
    community = Community(mesh, api, stored)
    await community.settle_down(20)
    await community.write(5)
    administrator = AdminClient({"bootstrap.servers": mesh.addresses.kafka})
    before = len(administrator.list_topics(kafka.POST_EVENTS, 5).topics[kafka.POST_EVENTS].partitions)
    writing = asyncio.create_task(community.write(60, pause=0.05))
    added = cast("Any", administrator).create_partitions([NewPartitions(kafka.POST_EVENTS, 2 * before)])
    added[kafka.POST_EVENTS].result()
    # Whoever writes learns of it when it asks the next time, at the latest after five minutes; this one asks at its start,
    # and is earlier than those who read.
    await asyncio.to_thread(mesh.terminate, "post-relay")
    await asyncio.to_thread(mesh.restart, "post-relay")
    await writing

    async def read_from_new_ones() -> bool:
        known = await asyncio.to_thread(committed, mesh.addresses.kafka)
        return any(topic == kafka.POST_EVENTS and partition >= before for topic, partition in known)

    await until(read_from_new_ones, "something was read from a new partition")
    await community.is_complete()
