"""A place in a consumer group: what is taken away is neither worked on nor committed any more."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from itertools import count

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from devmesh.backends.kafka import PARTITIONS, Kafka
from fanout_service.config import ConsumerSettings
from fanout_service.consumer.membership import Membership
from fanout_service.consumer.records import Record
from feedkit.kafka import POST_EVENTS

from .conftest import SECONDS, eventually

pytestmark = pytest.mark.integration

Join = Callable[[], Awaitable[Membership]]
SESSION_SECONDS = 3
_groups = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """A broker whose topic has records in every partition."""
    with Kafka() as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(20 * PARTITIONS):
            producer.produce(POST_EVENTS, str(number).encode(), partition=number % PARTITIONS)
        assert producer.flush(10) == 0
        yield broker


@pytest.fixture
def group() -> str:
    """A group of the test's own."""
    return f"group-{next(_groups)}"


@pytest.fixture
async def join(broker: Kafka, group: str) -> AsyncIterator[Join]:
    """Makes members, who leave in the end."""
    settings = ConsumerSettings(kafka_brokers=broker.address, kafka_session_seconds=SESSION_SECONDS)
    async with AsyncExitStack() as members:

        async def joined() -> Membership:
            member = Membership(settings, POST_EVENTS, group)
            members.push_async_callback(leave, member)
            await member.join()
            return member

        yield joined


async def leave(member: Membership) -> None:
    """Let a member leave, who may have done so already."""
    with suppress(RuntimeError):
        await member.leave()


async def some(member: Membership, most: int = 1000) -> list[Record]:
    """The next records of a member."""
    async with asyncio.timeout(SECONDS):
        while not (records := await member.take(most, 0.1)):
            pass
    return records


async def everything(member: Membership) -> list[Record]:
    """All records that there are, taken by one member."""
    records: list[Record] = []
    while len(records) < 20 * PARTITIONS:
        records += await some(member)
    return records


async def committed(broker: Kafka, group: str) -> dict[int, int]:
    """What the broker knows of a group; negative where nothing was committed."""

    def ask() -> dict[int, int]:
        reader = Consumer({"bootstrap.servers": broker.address, "group.id": group})
        try:
            places = [TopicPartition(POST_EVENTS, partition) for partition in range(PARTITIONS)]
            return {place.partition: place.offset for place in reader.committed(places, 5.0)}
        finally:
            reader.close()

    return await asyncio.to_thread(ask)


async def share(first: Membership, second: Membership, taken: list[Record]) -> list[Record]:
    """Let a second member get its part while the first works on what it has taken; gives what the second took first."""
    got: list[Record] = []

    async def shared() -> bool:
        await first.keep()
        got.extend(await second.take(1000, 0.05))
        return bool(got) and not all(first.holds(record) for record in taken)

    await eventually(shared, "shared")
    return got


async def test_records_come_in_order_and_are_committed_as_far_as_they_are_handled(
    broker: Kafka, group: str, join: Join
) -> None:
    member = await join()
    records = await everything(member)
    assert [record.offset for record in records if record.partition == 3] == list(range(20))
    handled = [record for record in records if record.offset < 5]
    await member.commit(handled)
    assert await committed(broker, group) == dict.fromkeys(range(PARTITIONS), 5)


async def test_no_more_is_taken_than_is_asked_for(join: Join) -> None:
    member = await join()
    assert len(await some(member, 1)) == 1
    assert len(await some(member, 7)) <= 7


async def test_nothing_is_taken_nor_lost_while_it_works(join: Join) -> None:
    member = await join()
    taken = await some(member, 1)
    for _ in range(5):
        await member.keep()
        await asyncio.sleep(0.05)
    while len(taken) < 20 * PARTITIONS:
        taken += await some(member)
    assert sorted((record.partition, record.offset) for record in taken) == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(20)
    ]


async def test_nothing_is_committed_for_what_was_taken_away(broker: Kafka, group: str, join: Join) -> None:
    first = await join()
    taken = await everything(first)
    second = await join()
    theirs = await share(first, second, taken)
    gone = {record.partition for record in taken if not first.holds(record)}
    assert 0 < len(gone) < PARTITIONS
    assert {record.partition for record in theirs} <= gone
    await second.commit(theirs)
    before = await committed(broker, group)
    await first.commit(record for record in taken if record.offset < 3)
    after = await committed(broker, group)
    assert {partition: after[partition] for partition in gone} == {partition: before[partition] for partition in gone}
    assert all(after[partition] == 3 for partition in range(PARTITIONS) if partition not in gone)


async def test_what_came_back_meanwhile_does_not_count_as_held(join: Join) -> None:
    first = await join()
    taken = await everything(first)
    second = await join()
    await share(first, second, taken)
    gone = {record.partition for record in taken if not first.holds(record)}
    await second.leave()
    again: set[int] = set()

    async def came_back() -> bool:
        again.update(record.partition for record in await first.take(1000, 0.05))
        return gone <= again

    await eventually(came_back, "came back")
    assert not any(first.holds(record) for record in taken if record.partition in gone)


async def test_a_join_that_the_broker_has_lost_is_repeated(broker: Kafka, join: Join) -> None:
    first = await join()
    await everything(first)
    second = await join()
    # It waits for the first to join again. The broker's own coordinator forgets that it has to answer.
    await second.take(1, 0.3)
    assert broker.child is not None
    os.kill(broker.child.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(SESSION_SECONDS + 1)
    finally:
        os.kill(broker.child.pid, signal.SIGCONT)

    async def shared() -> bool:
        await first.take(1000, 0)
        return bool(await second.take(1000, 0.05))

    await eventually(shared, "shared")
