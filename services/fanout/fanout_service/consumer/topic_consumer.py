"""Consumes one topic: takes a batch, handles it until that has succeeded, commits it, and takes the next."""

import asyncio
import itertools
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Generic, NamedTuple, Protocol, TypeVar

from confluent_kafka import KafkaException
from feedkit import telemetry
from feedkit.errors import DeadlineExceeded, Overloaded, Unavailable

from fanout_service.consumer.dead_letters import DeadLetters
from fanout_service.consumer.membership import Membership
from fanout_service.consumer.records import Poisonous, Record

logger = logging.getLogger(__name__)

NOT_NOW = (Unavailable, Overloaded, DeadlineExceeded)
"""How whatever is needed says "not now"; the same will succeed later."""
IDLE_SECONDS = 0.25
"""How long a record is waited for before the end of the process is looked for."""
LONG_SECONDS = 1.0
"""How long a batch may take before the group is shown that this process lives."""
KEEP_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
ATTEMPTS = 5
"""How often a record that fails in an unforeseen way is handled before it is set aside: within two or three seconds."""
AGAIN_SECONDS = 1.0
"""After what time a consumer that broke begins anew."""

Event = TypeVar("Event")


class Topic(NamedTuple, Generic[Event]):
    """What is consumed, and how it is handled."""

    name: str
    read: Callable[[Record], Event]
    """Raises Poisonous."""
    handle: Callable[[Sequence[Event]], Awaitable[None]]
    """May be given events again, and in any order. Raises NOT_NOW where it is to be."""
    most: int
    """How many records are taken together at most."""


class Consumes(Protocol):
    """A consumer of any topic."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Consume until the process is to stop, and then end the batch under way."""
        ...


class TopicConsumer(Generic[Event]):
    """A consumer of one topic."""

    def __init__(self, topic: Topic[Event], join: Callable[[], Membership], dead_letters: DeadLetters) -> None:
        """`join` makes a member of the topic's group."""
        self._topic = topic
        self._join = join
        self._dead_letters = dead_letters

    async def run(self, stopping: asyncio.Event) -> None:
        """See `Consumes`. It survives whatever happens, because the process is no use without it."""
        while not stopping.is_set():
            try:
                await self._consume(stopping)
            except Exception as error:
                level = logging.WARNING if isinstance(error, KafkaException) else logging.ERROR
                logger.log(level, "consumer begins anew", exc_info=error, extra={"topic": self._topic.name})
                await asyncio.sleep(AGAIN_SECONDS)

    async def _consume(self, stopping: asyncio.Event) -> None:
        member = self._join()
        try:
            await member.join()
            while not stopping.is_set():
                records = await member.take(self._topic.most, IDLE_SECONDS)
                if records:
                    await self._work(member, records)
                await member.commit(records)
        finally:
            await member.leave()

    async def _work(self, member: Membership, records: Sequence[Record]) -> None:
        """Handle a batch; while that takes long, take part in the group's life all the same."""
        handling = asyncio.create_task(self._handle(member, records))
        try:
            await asyncio.wait([handling], timeout=LONG_SECONDS)
            while not handling.done():
                await member.keep()
                await asyncio.wait([handling], timeout=KEEP_SECONDS)
        finally:
            handling.cancel()
            with suppress(asyncio.CancelledError):
                await handling

    async def _handle(self, member: Membership, records: Sequence[Record]) -> None:
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.destination.name": self._topic.name,
            "messaging.batch.message_count": len(records),
        }
        carriers = [record.headers for record in records]
        with telemetry.consumer_span(f"process {self._topic.name}", carriers, attributes):
            batch = _Batch[Event](records)
            for pause in pauses():
                # What was taken away meanwhile is another's work now.
                batch.forget_what_is_not(member.holds)
                try:
                    await self._read(batch)
                    await self._handle_together(batch)
                    return
                except NOT_NOW as error:
                    logger.warning("tried again later: %s", error.message, extra={"topic": self._topic.name})
                await asyncio.sleep(pause)

    async def _read(self, batch: "_Batch[Event]") -> None:
        while batch.unread:
            record = batch.unread[0]
            try:
                batch.events.append((record, self._topic.read(record)))
            except Poisonous as reason:
                await self._dead_letters.bury(record, str(reason))
            batch.unread.popleft()

    async def _handle_together(self, batch: "_Batch[Event]") -> None:
        if not batch.events:
            return
        try:
            await self._topic.handle([event for _, event in batch.events])
        except NOT_NOW:
            raise
        except Exception:
            logger.exception("a batch fails", extra={"topic": self._topic.name, "records": len(batch.events)})
            while batch.events:
                await self._handle_alone(*batch.events[0])
                batch.events.popleft()

    async def _handle_alone(self, record: Record, event: Event) -> None:
        """Handle one record of a batch that failed in a way that nobody foresaw, and set it aside if the fault is its own.

        A neighbour that fails so whatever it is asked costs no more than a record every few seconds.
        """
        reason = ""
        for pause in itertools.islice(pauses(), ATTEMPTS):
            try:
                await self._topic.handle([event])
                return
            except NOT_NOW:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
            await asyncio.sleep(pause)
        await self._dead_letters.bury(record, reason)


class _Batch(Generic[Event]):
    """What is still to be done of what was taken together. What is done does not come again with the next attempt."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.unread = deque(records)
        self.events: deque[tuple[Record, Event]] = deque()

    def forget_what_is_not(self, held: Callable[[Record], bool]) -> None:
        self.unread = deque(record for record in self.unread if held(record))
        self.events = deque((record, event) for record, event in self.events if held(record))


def pauses() -> Iterator[float]:
    """Seconds between attempts: growing to a bound, and scattered, so that not all processes come at the same time."""
    pause = 0.1
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


@asynccontextmanager
async def consuming(
    consumers: Sequence[Consumes], stopping: asyncio.Event, grace_seconds: float
) -> AsyncGenerator[None]:
    """Consume until the process is to stop; batches under way then get so long to end, and are abandoned."""
    tasks = [asyncio.create_task(consumer.run(stopping)) for consumer in consumers]
    ending = asyncio.create_task(_end(tasks, stopping, grace_seconds))
    try:
        yield
    finally:
        stopping.set()
        await ending


async def _end(tasks: Sequence[asyncio.Task[None]], stopping: asyncio.Event, grace_seconds: float) -> None:
    # From the moment of the stop on, beside the draining of the server, so that both need no longer than the longer one.
    await stopping.wait()
    _, late = await asyncio.wait(tasks, timeout=grace_seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if late:
        logger.warning("batches were abandoned; they will be handled again", extra={"consumers": len(late)})
