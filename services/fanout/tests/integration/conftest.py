"""A real fanout process on real backends, beside a truth that tests can change."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed.events.v1 import events_pb2
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feedkit import kafka, key_scripts, keys, redis
from feedkit.channel import connect
from feedkit.cursor import first_id_at
from feedkit.errors import Unavailable
from feedkit.kafka import KafkaSettings, Producer
from feedkit.keys import Tail
from feedkit.redis import Redis, RedisSettings
from google.protobuf import message as protobuf

from .truth import Truth, served

if TYPE_CHECKING:
    from feed.fanout.v1.fanout_pb2_grpc import FanoutServiceAsyncStub

PostEventKind: TypeAlias = "events_pb2.PostEventKind.ValueType"
GraphEventKind: TypeAlias = "events_pb2.GraphEventKind.ValueType"
UserEventKind: TypeAlias = "events_pb2.UserEventKind.ValueType"

LENGTH, CHUNK, THRESHOLD = 20, 10, 60
SESSION_SECONDS = 2
SECOND = "fanout-second"
LIFE_MS = 60_000
SETTINGS = {
    "FEED_TIMELINE_LENGTH": str(LENGTH),
    "FEED_CHUNK_SIZE": str(CHUNK),
    "FEED_PUSH_BATCH": "4",
    "FEED_CELEBRITY_THRESHOLD": str(THRESHOLD),
    "FEED_PULLED_STALENESS_SECONDS": "0.3",
    # Tests call authors pulled who have hardly a follower; where these are to leave, a test says so.
    "FEED_LEAVING_INTERVAL_SECONDS": "3600",
    "FEED_GRACE_SECONDS": "2",
    "FEED_KAFKA_SESSION_SECONDS": str(SESSION_SECONDS),
}
SECONDS = 20.0
"""How long a test waits for what has to come."""


async def eventually(check: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll until it is so."""
    give_up = time.monotonic() + SECONDS
    while not await check():
        assert time.monotonic() < give_up, f"not within {SECONDS:g} s: {what}"
        await asyncio.sleep(0.03)


def header(message: Message, name: str) -> str:
    """A header of a record."""
    headers = cast("list[tuple[str, bytes]]", message.headers() or [])
    return dict(headers)[name].decode()


@pytest.fixture(scope="session")
def session_truth() -> Iterator[tuple[Truth, str]]:
    """One truth for all tests, which use users and posts of their own."""
    truth = Truth()  # pyright: ignore[reportAbstractUsage] -- what it leaves out answers UNIMPLEMENTED
    with served(truth) as address:
        yield truth, address


@pytest.fixture(scope="session")
def mesh(session_truth: tuple[Truth, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Whoever stops a process, or a backend, starts it again. A second fanout is there to be started."""
    _, address = session_truth
    settings = {**SETTINGS, "FEED_GRAPH_TARGET": address, "FEED_POST_TARGET": address}
    [fanout] = [process for process in PROCESSES if process.name == "fanout"]
    processes = [fanout, replace(fanout, name=SECOND, port=fanout.port + 100)]
    with Mesh(settings, directory=tmp_path_factory.mktemp("mesh"), processes=processes) as mesh:
        mesh.terminate(SECOND)
        yield mesh


@pytest.fixture
def truth(session_truth: tuple[Truth, str]) -> Iterator[Truth]:
    """What `graph` and `post` know; nothing fails when a test begins."""
    truth, _ = session_truth
    truth.asked.clear()
    yield truth
    truth.failing.clear()
    truth.outbox_rows = 0


_users = itertools.count(1)
_posts = itertools.count(first_id_at(int(time.time() * 1000)), 1 << 22)


class World:
    """What a test does: users and posts in the truth, events in Kafka, timelines in Redis."""

    def __init__(
        self, truth: Truth, producer: Producer, store: Redis, fanout: "FanoutServiceAsyncStub", brokers: str
    ) -> None:
        self.truth = truth
        self.producer = producer
        self.store = store
        self.fanout = fanout
        self.brokers = brokers

    def user(self, *followees: int, active: bool = True) -> int:
        """A new user, who follows some."""
        user_id = next(_users)
        self.truth.follows[user_id] = set(followees)
        if active:
            self.truth.active.add(user_id)
        return user_id

    def crowd(self, count: int, followee: int) -> list[int]:
        """New followers of somebody."""
        return [self.user(followee) for _ in range(count)]

    def write(self, author_id: int) -> int:
        """A new post, of which nobody is told."""
        post_id = next(_posts)
        self.truth.posts[post_id] = author_id
        return post_id

    async def post(self, author_id: int) -> int:
        """A new post and its event."""
        post_id = self.write(author_id)
        await self.tell_of_post(post_id, author_id)
        return post_id

    async def tell_of_post(
        self, post_id: int, author_id: int, kind: PostEventKind = events_pb2.POST_EVENT_KIND_CREATED
    ) -> None:
        """An event of a post."""
        await self.send(
            kafka.POST_EVENTS, author_id, events_pb2.PostEvent(post_id=post_id, author_id=author_id, kind=kind)
        )

    async def delete(self, *post_ids: int) -> None:
        """Delete posts, with their events."""
        for post_id in post_ids:
            author_id = self.truth.posts.pop(post_id)
            await self.tell_of_post(post_id, author_id, events_pb2.POST_EVENT_KIND_DELETED)

    async def tell_of_edge(self, viewer: int, author: int, kind: GraphEventKind) -> None:
        """An event between two users."""
        await self.send(
            kafka.GRAPH_EVENTS, viewer, events_pb2.GraphEvent(follower_id=viewer, followee_id=author, kind=kind)
        )

    async def tell_of_account(self, user: int, kind: UserEventKind) -> None:
        """An event of an account."""
        await self.send(kafka.GRAPH_EVENTS, user, events_pb2.UserEvent(user_id=user, kind=kind))

    async def follow(self, follower: int, followee: int) -> None:
        """A new follow and its event."""
        self.truth.follows[follower].add(followee)
        await self.tell_of_edge(follower, followee, events_pb2.GRAPH_EVENT_KIND_FOLLOWED)

    async def unfollow(self, follower: int, followee: int) -> None:
        """The end of a follow and its event."""
        self.truth.follows[follower].discard(followee)
        await self.tell_of_edge(follower, followee, events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED)

    async def mute(self, viewer: int, author: int) -> None:
        """A new mute and its event."""
        self.truth.mutes.setdefault(viewer, set()).add(author)
        await self.tell_of_edge(viewer, author, events_pb2.GRAPH_EVENT_KIND_MUTED)

    async def unmute(self, viewer: int, author: int) -> None:
        """The end of a mute and its event."""
        self.truth.mutes[viewer].discard(author)
        await self.tell_of_edge(viewer, author, events_pb2.GRAPH_EVENT_KIND_UNMUTED)

    async def close(self, user: int) -> None:
        """Delete an account, with its event."""
        self.truth.deleted.add(user)
        await self.tell_of_account(user, events_pb2.USER_EVENT_KIND_DELETED)

    async def cached(self, *names: str) -> None:
        """Put something into keys of cached values, which an event then has to delete."""
        await self.store.run(*[("SET", name, keys.value(b"stale")) for name in names])

    async def post_list(self, name: str, *post_ids: int) -> None:
        """Fill in an author's list of posts, given newest first, which is all that there is."""
        token = key_scripts.new_token()
        packed = keys.encode_post_list(post_ids, 0)
        await self.store.run(key_scripts.take_lease(name, token), key_scripts.fill(name, token, packed, LIFE_MS))

    async def listed(self, name: str) -> tuple[int, ...] | None:
        """An author's list of posts, newest first; None where there is none."""
        [raw] = await self.store.run(key_scripts.get(name))
        packed = keys.payload(raw)
        return None if packed is None else keys.decode_post_list(packed).post_ids

    async def send(self, topic: str, key: int, message: protobuf.Message) -> None:
        """Any record."""
        await self.producer.send(topic, key, message)

    async def open(self, *viewers: int, horizon: int = 0) -> None:
        """Give viewers empty timelines, as they are when nobody they follow has written anything."""
        await self.store.run(*[key_scripts.create_timeline(viewer, horizon, LIFE_MS) for viewer in viewers])

    async def timeline(self, viewer: int) -> Tail | None:
        """What Redis holds of a timeline."""
        [raw] = await self.store.run(key_scripts.read_whole_timeline(viewer))
        return keys.decode_timeline(raw)

    async def shown(self, viewer: int) -> list[int] | None:
        """What readers take of a timeline, newest first; None where there is none."""
        tail = await self.timeline(viewer)
        if tail is None:
            return None
        posts, _ = tail.columns(0, tail.length)
        return [post for post in posts if post > tail.trailer.horizon][::-1]

    async def progress(self) -> fanout_pb2.GetSettledResponse:
        """What there is still to do."""
        return await self.fanout.GetSettled(fanout_pb2.GetSettledRequest())

    async def settle(self) -> None:
        """Wait until the system says that it has settled."""

        async def settled() -> bool:
            try:
                return (await self.progress()).settled
            except Unavailable:
                # On its way back, of which a busy machine needs more time to become aware.
                return False

        await eventually(settled, "settled")

    async def records(self, topic: str) -> list[Message]:
        """Whatever has been written to a topic."""

        def read() -> list[Message]:
            reader = Consumer({"bootstrap.servers": self.brokers, "group.id": "test", "enable.auto.commit": False})
            try:
                known = reader.list_topics(topic, 2.0).topics[topic]
                reader.assign([TopicPartition(topic, partition, 0) for partition in known.partitions])
                return [message for message in reader.consume(10_000, 1.0) if message.error() is None]
            finally:
                reader.close()

        return await asyncio.to_thread(read)

    async def keys(self, names: Collection[str]) -> int:
        """How many of these keys there are."""
        [count] = await self.store.run(("EXISTS", *names))
        return count


@pytest.fixture
async def world(mesh: Mesh, truth: Truth) -> AsyncIterator[World]:
    """A test's hands and eyes."""
    addresses = mesh.addresses
    service = fanout_pb2.DESCRIPTOR.services_by_name["FanoutService"]
    async with (
        kafka.producer(KafkaSettings(kafka_brokers=addresses.kafka)) as producer,
        redis.connect(RedisSettings.model_validate({"redis_url": addresses.redis})) as store,
        connect(addresses.grpc["fanout"], service, "fanout") as channel,
    ):
        yield World(truth, producer, store, fanout_pb2_grpc.FanoutServiceStub(channel), addresses.kafka)
