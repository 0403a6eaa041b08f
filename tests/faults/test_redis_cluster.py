"""The client of a Redis Cluster while slots move, servers die, hang, come and go: HAND-19 where Redis is a cluster."""

import asyncio
import itertools
import random
import signal
import time
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from devmesh.ports import free_ports
from feedctl.redis_keys import keys_in
from feedkit import deadline, key_scripts, keys, redis
from feedkit.errors import DeadlineExceeded, Unavailable
from feedkit.invalidation import Invalidation
from feedkit.redis import Redis, RedisSettings, Script
from links import Link, link_to
from polling import until
from redis.crc import key_slot
from timeline_service.author_posts import AuthorPosts
from timeline_service.home_store import ListStore

from tests.servers.redis_cluster import RedisCluster

pytestmark = [pytest.mark.integration, pytest.mark.real]

ADD_ONE = Script("return redis.call('INCR', KEYS[1])")
TAKE_OVER_SECONDS = 8.0
"""More than it takes until a replica has replaced a primary, and all have heard of it: 2.5 s where nothing else runs."""


@pytest.fixture(scope="module")
def started() -> Generator[RedisCluster]:
    """A cluster for all of these tests."""
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
async def cluster(started: RedisCluster) -> AsyncGenerator[RedisCluster]:
    """The cluster, whole and empty; every node runs again after the test."""
    for number in started.primaries():
        started.ask(number, "FLUSHALL")
    yield started
    await repaired(started)


async def repaired(cluster: RedisCluster) -> None:
    """Let every node run, and wait until all agree that all are well."""

    async def is_in_step() -> bool:
        return await asyncio.to_thread(cluster.is_in_step)

    for node in cluster.nodes:
        if not cluster.runs(node.number):
            cluster.launch_node(node.number)
        cluster.signal_node(node.number, signal.SIGCONT)
    await until(is_in_step, "the cluster is whole")


@asynccontextmanager
async def client_of(cluster: RedisCluster, **settings: Any) -> AsyncGenerator[Redis]:
    """A client with any settings, which knows the cluster."""
    told = {"redis_url": cluster.url, "redis_cluster": True, **settings}
    async with redis.connect(RedisSettings.model_validate(told)) as client:
        await client.run_everywhere(("PING",))
        yield client


@pytest.fixture
async def client(cluster: RedisCluster) -> AsyncGenerator[Redis]:
    """A client of the cluster."""
    async with client_of(cluster) as client:
        yield client


def names_at(cluster: RedisCluster, number: int, count: int) -> list[str]:
    """Names of keys that a node has."""
    some = (f"key-{serial}" for serial in itertools.count())
    return [*itertools.islice((name for name in some if cluster.primary_of(key_slot(name.encode())) == number), count)]


async def taken_over(cluster: RedisCluster, slot: int, since: int) -> None:
    """Return when a slot has another primary than `since`."""

    async def has_another() -> bool:
        return any(number != since for number in await asyncio.to_thread(cluster.owners, slot))

    await until(has_another, "a replica has taken over", TAKE_OVER_SECONDS)


class Echoes:
    """Callers who each read and write keys of their own, and know what they have to find there."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._stopping = False
        self.answered = 0
        self.failures: list[tuple[float, str]] = []
        """When a call failed, and the key of it."""

    async def call(self, name: str) -> None:
        """Write and read a key until it is enough; only Unavailable is an excuse."""
        for serial in itertools.count():
            if self._stopping:
                return
            value = f"{name}={serial}".encode()
            commands = [("SET", name, value), ("GET", name), ("ECHO", value)]
            try:
                assert await self._client.run(*commands) == [b"OK", value, value]
                self.answered += 1
            except Unavailable:
                self.failures.append((time.monotonic(), name))
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def all_the_time(self, names: list[str]) -> AsyncGenerator[None]:
        """Within the block, call for each of these names."""
        async with asyncio.TaskGroup() as callers:
            for name in names:
                callers.create_task(self.call(name))
            try:
                yield
            finally:
                self._stopping = True


# --- slots that move --------------------------------------------------------------------------------------------------


async def test_nobody_notices_slots_that_move_to_servers_known_and_new(cluster: RedisCluster, client: Redis) -> None:
    names = [f"{{moving}}{number}" for number in range(40)]
    slot = key_slot(b"moving")
    acknowledged = dict.fromkeys(names, 0)
    is_over = asyncio.Event()

    async def count(name: str) -> None:
        while not is_over.is_set():
            [counted] = await client.run(ADD_ONE(name))
            acknowledged[name] += 1
            assert counted == acknowledged[name]
            others, [read] = await client.run(("MGET", name, f"other-{name}", name), ("MGET", name))
            assert (others, read) == ([b"%d" % counted, None, b"%d" % counted], b"%d" % counted)

    def steadily() -> None:
        time.sleep(0.005)

    home = await asyncio.to_thread(cluster.primary_of, slot)
    newcomer = await asyncio.to_thread(cluster.join)
    await client.run_everywhere(("SCRIPT", "FLUSH"))
    async with asyncio.TaskGroup() as counting:
        for name in names:
            counting.create_task(count(name))
        another = next(number for number in cluster.primaries() if number not in {home, newcomer})
        for to in (newcomer, another, home):
            await asyncio.to_thread(cluster.move_slot, slot, to, each=steadily)
        is_over.set()
    await asyncio.to_thread(cluster.leave, newcomer)
    assert min(acknowledged.values()) > 20
    counts = await client.run(*(("GET", name) for name in names))
    assert [int(counted) for counted in counts] == [*acknowledged.values()]


# --- servers that die ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_primary_that_dies_or_hangs_is_missed_by_nobody_else_and_not_for_long(
    cluster: RedisCluster, client: Redis, how: signal.Signals
) -> None:
    slot = key_slot(b"{lost}")
    lost = await asyncio.to_thread(cluster.primary_of, slot)
    concerned = [f"{{lost}}{number}" for number in range(20)]
    others = [name for number in {0, 1, 2, 3, 4, 5} - {lost} for name in at_once(cluster, number, 5)]
    echoes = Echoes(client)
    async with echoes.all_the_time([*concerned, *others]):
        await asyncio.sleep(0.2)
        before = echoes.answered
        cluster.end_node(lost, how)
        await taken_over(cluster, slot, lost)
        await until_it_answers(client, "{lost}0")
        answered_at, back = time.monotonic(), echoes.answered
        await asyncio.sleep(0.5)
    assert before > 0
    assert back > before
    assert {name for _, name in echoes.failures} <= {*concerned}
    assert not [name for at, name in echoes.failures if at > answered_at + 0.3]


def at_once(cluster: RedisCluster, number: int, count: int) -> list[str]:
    """Names of keys that a node has; none where it is a replica."""
    return names_at(cluster, number, count) if number in cluster.primaries() else []


async def until_it_answers(client: Redis, name: str) -> None:
    """Wait until a key can be read."""

    async def answers() -> bool:
        with suppress(Unavailable):
            await client.run(("GET", name))
            return True
        return False

    await until(answers, f"{name} can be read", TAKE_OVER_SECONDS)


async def test_who_insists_reaches_a_replica_that_has_taken_over_before_others_know_of_it(
    cluster: RedisCluster, client: Redis
) -> None:
    slot = key_slot(b"{lost}")
    lost = await asyncio.to_thread(cluster.primary_of, slot)
    await client.run(("SET", "{lost}", "before"))
    cluster.end_node(lost, signal.SIGKILL)
    await taken_over(cluster, slot, lost)
    # Nobody has asked since, so nobody has reason to ask who has which keys.
    assert await client.insist(("SET", "{lost}", "after"), ("GET", "{lost}")) == [b"OK", b"after"]
    await until_it_answers(client, "{lost}")
    assert await client.run(("GET", "{lost}")) == [b"after"]


async def test_what_changed_while_a_primary_was_lost_is_deleted_where_its_replica_has_taken_over(
    cluster: RedisCluster, client: Redis
) -> None:
    slot = key_slot(b"{lost}")
    lost = await asyncio.to_thread(cluster.primary_of, slot)
    names = [f"{{lost}}{number}" for number in range(30)]
    await client.run(*(("SET", name, "old") for name in names))
    assert await asyncio.to_thread(cluster.ask, lost, "WAIT", 1, 5000) >= 0
    async with Invalidation(client) as invalidation:
        cluster.end_node(lost, signal.SIGKILL)
        for name in names:
            began = time.monotonic()
            await invalidation.forget(name)
            assert time.monotonic() - began < 1.5
        await taken_over(cluster, slot, lost)

        async def are_gone() -> bool:
            with suppress(Unavailable):
                return await client.run(*(("GET", name) for name in names)) == [None] * len(names)
            return False

        await until(are_gone, "nothing old is left", TAKE_OVER_SECONDS)


async def test_who_listens_at_a_server_that_is_lost_hears_elsewhere_what_is_published_anywhere(
    cluster: RedisCluster, client: Redis
) -> None:
    heard: list[bytes] = []
    gaps: list[float] = []
    async with AsyncExitStack() as stack:
        for _ in range(6):
            listener = await stack.enter_async_context(client_of(cluster))
            subscription = listener.subscribed("news", heard.append, lambda: gaps.append(time.monotonic()))
            await stack.enter_async_context(subscription)
        await until(lambda: true(len(gaps) == 6), "all listen")
        await client.run(("PUBLISH", "news", "first"))
        await until(lambda: true(len(heard) == 6), "all hear what is published somewhere")
        lost = max(cluster.primaries(), key=lambda number: cluster.ask(number, "PUBSUB", "NUMSUB", "news")[0][1])
        cluster.end_node(lost, signal.SIGKILL)
        await until(lambda: true(len(gaps) > 6), "some have lost their server")

        async def is_heard_by_all() -> bool:
            heard.clear()
            with suppress(Unavailable):
                await client.run(("PUBLISH", "news", "second"))
            await asyncio.sleep(0.1)
            return len(heard) == 6

        await until(is_heard_by_all, "all listen elsewhere", TAKE_OVER_SECONDS)


async def true(holds: bool) -> bool:
    """A condition that is known already."""
    return holds


# --- answers that nobody waits for any longer -------------------------------------------------------------------------


@asynccontextmanager
async def linked_cluster() -> AsyncGenerator[tuple[RedisCluster, list[Link]]]:
    """A cluster, and the links through which its nodes are reached, also by those who replicate them."""
    async with AsyncExitStack() as stack:
        ports = free_ports(6)
        links: list[Link] = [await stack.enter_async_context(link_to(f"127.0.0.1:{port}")) for port in ports]
        announced = {port: int(link.address.rpartition(":")[2]) for port, link in zip(ports, links, strict=True)}
        cluster = RedisCluster(announced=announced)
        try:
            await asyncio.to_thread(cluster.start)
            yield cluster, links
        finally:
            await asyncio.to_thread(cluster.stop)


async def test_cancellations_and_a_lost_primary_never_give_anybody_anothers_answer() -> None:
    chance = random.Random(19)
    answered = 0
    async with linked_cluster() as (cluster, links), client_of(cluster, redis_timeout_seconds=1) as client:

        async def read(viewer: int) -> None:
            nonlocal answered
            names = [f"viewer-{viewer}-followee-{number}" for number in range(chance.randint(1, 6))]
            try:
                with deadline.within(chance.choice([0.05, 5.0, 5.0])):
                    values, *echoes = await client.run(("MGET", *names), *(("ECHO", name) for name in names))
            except (Unavailable, DeadlineExceeded):
                return
            # Of what a lost primary had not passed on there is nothing; of somebody else there is never anything.
            wrong = [value for name, value in zip(names, values, strict=True) if value not in {name.encode(), None}]
            assert not wrong
            assert echoes == [name.encode() for name in names]
            answered += 1

        async def come_and_go(viewer: int, is_over: asyncio.Event) -> None:
            while not is_over.is_set():
                reading = asyncio.create_task(read(viewer))
                if chance.random() < 0.3:
                    await asyncio.sleep(chance.uniform(0.001, 0.15))
                    reading.cancel()
                await asyncio.wait([reading])
                if not reading.cancelled():
                    reading.result()

        every = [f"viewer-{viewer}-followee-{number}" for viewer in range(500) for number in range(6)]
        await client.run(*(("SET", name, name) for name in every))
        for link in links:
            link.seconds = lambda: 0.1
            await link.cut()
        is_over = asyncio.Event()
        async with asyncio.TaskGroup() as viewers:
            for viewer in range(500):
                viewers.create_task(come_and_go(viewer, is_over))
            await until(lambda: true(answered > 500), "many are answered")
            lost = await asyncio.to_thread(cluster.primary_of, 0)
            cluster.end_node(lost, signal.SIGKILL)
            await taken_over(cluster, 0, lost)
            at_take_over = answered
            await until(lambda: true(answered > at_take_over + 500), "many are answered again", TAKE_OVER_SECONDS)
            is_over.set()
        await until_it_answers(client, every[0])
        answers = await client.run(*(("ECHO", name) for name in every[:100]))
        assert answers == [name.encode() for name in every[:100]]


# --- replicas that are read from ----------------------------------------------------------------------------------------


def reads_of(cluster: RedisCluster, number: int) -> int:
    """How many GETs and MGETs a node has answered."""
    told = cluster.ask(number, "INFO", "commandstats")
    return sum(told.get(name, {"calls": 0})["calls"] for name in ("cmdstat_get", "cmdstat_mget"))


async def test_reads_that_may_be_old_are_answered_by_replicas_and_all_others_are_not(
    cluster: RedisCluster, client: Redis
) -> None:
    primaries = await asyncio.to_thread(cluster.primaries)
    replicas = [node.number for node in cluster.nodes if node.number not in primaries]
    hot = [f"hot-{number}" for number in range(30)]
    await client.run(*(("SET", name, name) for name in hot))
    await asyncio.sleep(0.2)

    async def asks_replicas() -> bool:
        before = sum(reads_of(cluster, number) for number in replicas)
        assert await client.read(*(("GET", name) for name in hot), age=1) == [name.encode() for name in hot]
        return sum(reads_of(cluster, number) for number in replicas) == before + len(hot)

    await until(asks_replicas, "all are read from replicas", 5)
    before = [reads_of(cluster, number) for number in replicas]
    await client.run(*(("GET", name) for name in hot))
    await client.insist(*(("GET", name) for name in hot))
    assert [reads_of(cluster, number) for number in replicas] == before


async def test_recents_of_pulled_authors_are_read_from_replicas_and_nobodys_own_posts(
    cluster: RedisCluster, client: Redis
) -> None:
    primaries = await asyncio.to_thread(cluster.primaries)
    replicas = [node.number for node in cluster.nodes if node.number not in primaries]
    authors = range(1, 31)
    own, recents = ListStore(client, keys.own, cache_ms=60_000), ListStore(client, keys.recents, cache_ms=60_000, age=1)
    lists = {author: AuthorPosts.of([author], 0) for author in authors}
    for store in (own, recents):
        await store.fill(await store.lease(authors), lists)

    async def are_read(store: ListStore) -> int:
        before = sum(reads_of(cluster, number) for number in replicas)
        assert await store.get(authors) == lists
        return sum(reads_of(cluster, number) for number in replicas) - before

    async def all_come_from_replicas() -> bool:
        return await are_read(recents) == len(authors)

    await until(all_come_from_replicas, "recents are read from replicas", 5)
    assert await are_read(own) == 0


async def test_what_is_read_is_never_older_than_it_may_be_however_far_a_replica_is_behind() -> None:
    age, name = 0.6, "{hot}"
    is_over = asyncio.Event()
    async with linked_cluster() as (cluster, links), client_of(cluster) as client:
        primary = cluster.primary_of(key_slot(b"hot"))
        replica = next(number for number in range(6) if cluster.follows(number) == primary)
        acknowledged: list[tuple[float, int]] = []

        async def write() -> None:
            while not is_over.is_set():
                [count] = await client.run(ADD_ONE(name))
                acknowledged.append((time.monotonic(), count))
                await asyncio.sleep(0.005)

        async def read() -> None:
            while not is_over.is_set():
                must_be_seen = time.monotonic() - age
                [raw] = await client.read(("GET", name), age=age)
                assert int(raw or 0) >= max((count for at, count in acknowledged if at <= must_be_seen), default=0)
                await asyncio.sleep(0.005)

        async def is_asked(seconds: float) -> bool:
            before = await asyncio.to_thread(reads_of, cluster, replica)
            await asyncio.sleep(seconds)
            return await asyncio.to_thread(reads_of, cluster, replica) > before + 3

        async with asyncio.TaskGroup() as group:
            for work in (write(), read(), read()):
                group.create_task(work)
            await until(lambda: is_asked(0.2), "the replica is read from")
            for late, is_fit in ((1.0, False), (0.0, True)):
                links[primary].seconds = lambda late=late: late
                await asyncio.to_thread(cluster.ask, primary, "CLIENT", "KILL", "TYPE", "slave")
                await until(lambda: is_linked(cluster, replica), "the replica follows again")
                await asyncio.sleep(age)
                await until(lambda is_fit=is_fit: equal(is_asked(0.5), is_fit), f"read from it: {is_fit}", 5)
            is_over.set()


async def equal(found: Coroutine[Any, Any, bool], wanted: bool) -> bool:
    """Whether it is found to be as wanted."""
    return await found is wanted


async def is_linked(cluster: RedisCluster, number: int) -> bool:
    """Whether a replica hears of what its primary writes."""
    return (await asyncio.to_thread(cluster.ask, number, "ROLE"))[3] == b"connected"


# --- keys of the product ----------------------------------------------------------------------------------------------


async def test_a_lease_that_was_taken_before_its_slot_moved_still_fills_and_a_deletion_still_ends_it(
    cluster: RedisCluster, client: Redis
) -> None:
    slot, home = key_slot(b"leased"), await asyncio.to_thread(cluster.primary_of, key_slot(b"leased"))
    kept, ended = "{leased}kept", "{leased}ended"
    tokens: dict[str, bytes] = {name: key_scripts.new_token() for name in (kept, ended)}
    await client.run(*(key_scripts.take_lease(name, token) for name, token in tokens.items()))
    another = next(number for number in cluster.primaries() if number != home)
    await asyncio.to_thread(cluster.move_slot, slot, another)
    await client.run(key_scripts.forget(ended))
    fills = [key_scripts.fill(name, token, b"value", 10_000) for name, token in tokens.items()]
    assert await client.run(*fills) == [1, 0]


async def test_operators_see_the_keys_of_all_servers(cluster: RedisCluster, client: Redis) -> None:
    names = [f"some:{number}" for number in range(300)]
    await client.run(
        *(("SET", name, name) for name in names), ("SET", "other", ""), ("HSET", "foreign", "field", "value")
    )
    async with keys_in(cluster.url) as seen:
        assert await seen.count() == len(names) + 2
        assert await seen.exist([*names, "absent"]) == [True] * len(names) + [False]
        values = [name.encode() for name in names]
        assert await seen.values([*names, "absent", "foreign"]) == [*values, None, None]
        pages = [page async for page in seen.pages("some:*", 20)]
    assert sorted(name for page in pages for name in page) == sorted(values)
    assert len(pages) > 10
