"""What happens to a mesh, and is put right again: processes that die or stand still, keys that vanish, records that come
again, days that pass, settings that change."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import limits
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from devmesh.mesh import Mesh
from feedkit import kafka, keys
from outages import MORTAL
from settling import settled
from stored_keys import StoredKeys

from tests.oracle.steps import Blow, Fate

LONGEST_DAYS = 28
"""How long a timeline lives at most."""
_GROW_OLDER = "UPDATE activity SET seen_on = seen_on - $1::int WHERE user_id = ANY($2::bigint[])"
DAY_MS = 24 * 60 * 60 * 1000
BROKER_SECONDS = 10.0
TOPICS = (kafka.POST_EVENTS, kafka.GRAPH_EVENTS, kafka.FANOUT_CHUNKS, kafka.RECONCILE)
GROUP = "tests.oracle"
FREEZABLE = tuple(dict.fromkeys((*MORTAL, "kafka")))
FORGETFUL = frozenset({"redis"})
"""Whoever dies of these has forgotten everything."""


class Fates:
    """Lets things happen to a mesh. `restore` leaves it as it was found."""

    def __init__(self, mesh: Mesh, stored: StoredKeys) -> None:
        self._mesh = mesh
        self._stored = stored
        self._settings: dict[str, str] = {}
        self._beginning: dict[tuple[str, int], int] = {}

    # --- processes -------------------------------------------------------------------------------------------------------

    async def befall(self, fate: Fate) -> None:
        """Let it happen, and return when the process serves again."""
        process = fate.process
        match fate.blow:
            case Blow.KILL:
                await asyncio.to_thread(self._mesh.kill, process)
                await asyncio.sleep(fate.tenths / 10)
                await asyncio.to_thread(self._mesh.restart, process)
            case Blow.STOP:
                await asyncio.to_thread(self._mesh.terminate, process)
                await asyncio.sleep(fate.tenths / 10)
                await asyncio.to_thread(self._mesh.restart, process)
            case Blow.FREEZE:
                pids = self._family(process)
                _signal(pids, signal.SIGSTOP)
                try:
                    await asyncio.sleep(fate.tenths / 10)
                finally:
                    _signal(pids, signal.SIGCONT)

    def _family(self, process: str) -> list[int]:
        """All that stands behind a name: PostgreSQL is many."""
        return [pid for started in self._mesh.pids_of(process) for pid in _with_children(started)]

    async def set(self, name: str, value: int) -> None:
        """Give `fanout` a setting, as a rollout does."""
        await self._roll_out({name: str(value)})
        self._settings[name] = str(value)

    async def _roll_out(self, settings: dict[str, str]) -> None:
        await asyncio.to_thread(self._mesh.terminate, "fanout")
        await asyncio.to_thread(self._mesh.restart, "fanout", settings)

    async def restore(self) -> None:
        """Let everything run, with the settings that it had."""
        pids = self._mesh.addresses.pids
        for process in FREEZABLE:
            if process in pids:
                _signal(self._family(process), signal.SIGCONT)
            else:
                await asyncio.to_thread(self._mesh.restart, process)
        if any(limits.SETTINGS.get(name) != value for name, value in self._settings.items()):
            await self._roll_out({name: limits.SETTINGS[name] for name in self._settings})

    # --- Redis -----------------------------------------------------------------------------------------------------------

    async def forget(self, names: Iterable[str]) -> None:
        """Let keys vanish."""
        await self._stored.delete(*names)

    async def forget_everything(self) -> None:
        """Let all keys vanish."""
        await self._stored.flush()

    # --- Kafka -----------------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """From here on records come again by `replay`."""
        self._beginning = await asyncio.to_thread(_ends, self._mesh.addresses.kafka)

    async def lose_broker(self) -> None:
        """Let Kafka die, the embedded one with all its records, once nobody needs them any more."""
        await settled(self._mesh)
        await self._begin_anew([])

    async def replay(self) -> None:
        """Let `fanout` begin with the first record of this programme again, as after its groups' offsets were set back.

        The embedded broker is a mock, in which nobody but a member can set the offsets of a group back. So it is given the
        records again after it has forgotten them, and all offsets with them; a real one is given them once more.
        """
        await settled(self._mesh)
        await self._begin_anew(await asyncio.to_thread(_records, self._mesh.addresses.kafka, self._beginning))

    async def _begin_anew(self, records: Sequence[Message]) -> None:
        # Consumers that lived on would look for the offsets that they had reached, which no real broker forgets.
        for process in ("fanout", "kafka"):
            await asyncio.to_thread(self._mesh.kill, process)
        await asyncio.to_thread(self._mesh.restart, "kafka")
        await self.begin()
        await asyncio.to_thread(_publish, self._mesh.addresses.kafka, records)
        await asyncio.to_thread(self._mesh.restart, "fanout")

    # --- time ------------------------------------------------------------------------------------------------------------

    async def days_pass(self, days: int, people: Sequence[int]) -> None:
        """Let these people's last activity, and all that is kept for them in Redis, grow older by some days.

        What is cached lives for minutes, so all of it expires, and so do timelines that have no more days to live.
        """
        await settled(self._mesh)
        connection = await asyncpg.connect(self._mesh.addresses.postgres["graph"])
        try:
            await connection.execute(_GROW_OLDER, days, people)
        finally:
            await connection.close()
        for person in people:
            await self.forget(key(person) for key in (keys.context, keys.hidden, keys.own, keys.recents, keys.user))
            await self._stored.expire(keys.timeline(person), await self._life_ms(person) - days * DAY_MS)
        # A rebuild on its way has perhaps noted its viewer's activity before, and made the timeline after.
        await settled(self._mesh)
        for person in people:
            longest_ms = (LONGEST_DAYS - days) * DAY_MS
            await self._stored.expire(keys.timeline(person), min(await self._life_ms(person), longest_ms))

    async def _life_ms(self, person: int) -> int:
        return await self._stored.life_ms(keys.timeline(person))


@asynccontextmanager
async def meanwhile(fates: Fates, fate: Fate | None) -> AsyncGenerator[None]:
    """Within the block something happens to a process; at its end the process serves again."""
    if fate is None:
        yield
        return
    happening = asyncio.create_task(fates.befall(fate))
    try:
        yield
    finally:
        await happening


def _with_children(pid: int) -> list[int]:
    """A process and those that it started."""
    running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    children = [other for other in running if _parent(other) == pid]
    return [pid, *children]


def _parent(pid: int) -> int | None:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return None


def _signal(pids: Iterable[int], what: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, what)


def _places(consumer: Consumer) -> Iterator[TopicPartition]:
    """All partitions that `fanout` consumes."""
    for topic in TOPICS:
        for number in consumer.list_topics(topic, timeout=BROKER_SECONDS).topics[topic].partitions:
            yield TopicPartition(topic, number)


def _ends(brokers: str) -> dict[tuple[str, int], int]:
    """Where each of them ends."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": GROUP})
    try:
        return {
            (place.topic, place.partition): consumer.get_watermark_offsets(place, timeout=BROKER_SECONDS)[1]
            for place in _places(consumer)
        }
    finally:
        consumer.close()


def _records(brokers: str, beginning: dict[tuple[str, int], int]) -> list[Message]:
    """All records from there on, those of a partition in order."""
    missing = {place: end - beginning[place] for place, end in _ends(brokers).items() if end > beginning[place]}
    records: list[Message] = []
    # It is assigned what it reads, so it is no member of its group, and commits nothing.
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": GROUP, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(*place, beginning[place]) for place in missing])
        while sum(missing.values()) > len(records):
            records += [message for message in consumer.consume(1000, 0.1) if message.error() is None]
    finally:
        consumer.close()
    return records


def _publish(brokers: str, records: Iterable[Message]) -> None:
    producer = Producer({"bootstrap.servers": brokers})
    for record in records:
        producer.produce(
            record.topic() or "",
            partition=record.partition() or 0,
            key=record.key(),
            value=record.value(),
            headers=record.headers() or [],
        )
    producer.flush(BROKER_SECONDS)
