"""Temporary failures are waited out, poison is set aside, and a crash at any point loses and repeats nothing."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import grpc
import pytest
from devmesh.mesh import Mesh
from feed.events.v1 import events_pb2
from feed.fanout.v1 import fanout_pb2
from feedkit import kafka
from feedkit.errors import Unavailable

from .conftest import CHUNK, LENGTH, SECOND, SESSION_SECONDS, World, eventually, header

pytestmark = pytest.mark.integration


@contextmanager
def stopped(mesh: Mesh, process: str) -> Generator[None]:
    """A process that does not do anything, until the end of the block."""
    pid = mesh.addresses.pids[process]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def killed(mesh: Mesh, process: str) -> AsyncGenerator[None]:
    """A process that was killed, until the end of the block."""
    await asyncio.to_thread(mesh.kill, process)
    try:
        yield
    finally:
        await asyncio.to_thread(mesh.restart, process)


# --- temporary failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ClassifyAuthors", "StreamActiveFollowers"])
@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_a_failure_that_passes_delays_a_post_and_loses_nothing(
    world: World, method: str, code: grpc.StatusCode
) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    world.truth.failing[method] = code
    post = await world.post(author)

    async def tried_again() -> bool:
        return world.truth.asked[method] >= 3

    await eventually(tried_again, "tried again")
    assert not (await world.progress()).settled, "what is tried again is not handled"
    world.truth.failing.clear()
    await world.settle()
    assert await world.shown(reader) == [post]


async def test_a_rebuild_waits_for_a_neighbour_that_is_away(world: World) -> None:
    author = world.user()
    reader = world.user(author)
    post = world.write(author)
    world.truth.failing["ListRecentByAuthors"] = grpc.StatusCode.UNAVAILABLE
    await world.fanout.Reconcile(fanout_pb2.ReconcileRequest(viewer_id=reader))

    async def tried_again() -> bool:
        return world.truth.asked["ListRecentByAuthors"] >= 3

    await eventually(tried_again, "tried again")
    assert await world.shown(reader) == [], "a timeline that is being made promises nothing"
    assert (await world.progress()).open_reconciles == 1
    world.truth.failing.clear()
    await world.settle()
    assert await world.shown(reader) == [post]


async def test_a_redis_that_hangs_delays_posts_and_loses_none(world: World, mesh: Mesh) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    with stopped(mesh, "redis"):
        post = await world.post(author)
        await asyncio.sleep(1.5)  # longer than an answer is waited for
    await world.settle()
    assert await world.shown(reader) == [post]


async def test_lag_is_told_in_events_and_in_milliseconds(world: World) -> None:
    author = world.user()
    await world.settle()
    world.truth.failing["ClassifyAuthors"] = grpc.StatusCode.UNAVAILABLE
    for _ in range(3):
        await world.post(author)

    async def lags() -> bool:
        status = await world.fanout.GetStatus(fanout_pb2.GetStatusRequest())
        return status.lag_events == 3 and 500 < status.lag_ms < 20_000

    await eventually(lags, "lag")
    world.truth.failing.clear()
    await world.settle()
    status = await world.fanout.GetStatus(fanout_pb2.GetStatusRequest())
    assert (status.lag_events, status.lag_ms) == (0, 0)
    assert status.threshold_cause == fanout_pb2.THRESHOLD_CAUSE_CONFIGURED
    assert status.celebrity_threshold == status.configured_celebrity_threshold > 0


async def test_it_is_not_settled_while_an_outbox_is_not_empty(world: World) -> None:
    await world.settle()
    world.truth.outbox_rows = 2
    progress = await world.progress()
    assert not progress.settled
    assert progress.outbox_rows == 4, "both services have an outbox"


# --- poison ----------------------------------------------------------------------------------------------------------

POISON = {
    "random bytes": (b"\xff\x00\xfe", "feed.events.v1.PostEvent", "no feed.events.v1.PostEvent"),
    "an empty value": (b"", "feed.events.v1.PostEvent", "empty"),
    "another type": (b"\x08\x01", "feed.events.v1.Surprise", "Surprise"),
    "a broken rule": (
        events_pb2.PostEvent(post_id=-1, author_id=1, kind=events_pb2.POST_EVENT_KIND_CREATED).SerializeToString(),
        "feed.events.v1.PostEvent",
        "post_id",
    ),
    "an unknown kind": (b"\x08\x01\x10\x01\x18\x63", "feed.events.v1.PostEvent", "kind"),
    "no kind": (b"\x08\x01\x10\x01", "feed.events.v1.PostEvent", "kind"),
}


@pytest.mark.parametrize("name", POISON)
async def test_poison_is_set_aside_with_its_reason_and_holds_up_nobody(world: World, name: str) -> None:
    value, type_name, reason = POISON[name]
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    before = world.write(author)
    # One key, one partition: the poison is between the two.
    await world.tell_of_post(before, author)
    await world.producer.send_record(kafka.POST_EVENTS, str(author), value, {"type": type_name})
    after = await world.post(author)
    await world.settle()
    assert await world.shown(reader) == [after, before]
    [letter] = [letter for letter in await world.records(kafka.DEAD_LETTERS) if letter.key() == str(author).encode()]
    assert reason in header(letter, "reason")
    assert (letter.value() or b"") == value
    assert header(letter, "topic") == kafka.POST_EVENTS
    assert header(letter, "partition").isdecimal()
    assert header(letter, "offset").isdecimal()


async def test_a_huge_record_is_handled_or_set_aside_but_holds_up_nobody(world: World) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    await world.producer.send_record(
        kafka.POST_EVENTS, str(author), b"\xff" * 900_000, {"type": "feed.events.v1.PostEvent"}
    )
    post = await world.post(author)
    await world.settle()
    assert await world.shown(reader) == [post]
    [letter] = [letter for letter in await world.records(kafka.DEAD_LETTERS) if letter.key() == str(author).encode()]
    assert header(letter, "value-bytes") == "900000"


async def test_an_event_of_somebody_who_does_not_exist_holds_up_nobody(world: World) -> None:
    reader = world.user()
    author = world.user()
    world.truth.follows[reader].add(author)
    await world.open(reader)
    await world.tell_of_post(1, 1 << 40)
    post = await world.post(author)
    await world.settle()
    assert await world.shown(reader) == [post]


async def test_a_record_that_fails_in_an_unforeseen_way_is_found_among_its_batch_and_set_aside(world: World) -> None:
    author, reader = world.user(), world.user()
    world.truth.follows[reader].add(author)
    await world.open(reader)
    world.truth.failing["StreamActiveFollowers"] = grpc.StatusCode.INTERNAL
    lost = await world.post(author)
    await world.settle()
    world.truth.failing.clear()
    post = await world.post(author)
    await world.settle()
    assert await world.shown(reader) == [post]
    [letter] = [letter for letter in await world.records(kafka.DEAD_LETTERS) if letter.key() == str(author).encode()]
    assert events_pb2.PostEvent.FromString(letter.value() or b"").post_id == lost


# --- crashes ---------------------------------------------------------------------------------------------------------


async def test_events_of_its_absence_are_handled(world: World, mesh: Mesh) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    async with killed(mesh, "fanout"):
        posts = [await world.post(author) for _ in range(5)]
    await world.settle()
    assert await world.shown(reader) == posts[::-1]


async def test_a_process_that_is_killed_between_chunks_loses_and_repeats_nothing(world: World, mesh: Mesh) -> None:
    author = world.user()
    followers = world.crowd(5 * CHUNK, author)
    await world.open(*followers)
    with stopped(mesh, "redis"):
        # The chunks are left, or are not, and none can be delivered.
        post = await world.post(author)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(mesh.kill, "fanout")
    await asyncio.to_thread(mesh.restart, "fanout")
    await world.settle()
    for follower in followers:
        assert await world.shown(follower) == [post]


async def test_an_orderly_stop_ends_what_is_under_way_and_has_nothing_repeated(world: World, mesh: Mesh) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    before = await world.post(author)
    await world.settle()
    post = await world.post(author)

    async def arrived() -> bool:
        return await world.shown(reader) == [post, before]

    await eventually(arrived, "delivered")
    assert await asyncio.to_thread(mesh.terminate, "fanout") == 0
    world.truth.asked.clear()
    await asyncio.to_thread(mesh.restart, "fanout")
    await world.settle()
    assert world.truth.asked["StreamActiveFollowers"] == 0


async def test_a_stop_is_orderly_while_a_batch_cannot_end(world: World, mesh: Mesh) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    world.truth.failing["ClassifyAuthors"] = grpc.StatusCode.UNAVAILABLE
    post = await world.post(author)

    async def tried() -> bool:
        return world.truth.asked["ClassifyAuthors"] > 0

    await eventually(tried, "tried")
    assert await asyncio.to_thread(mesh.terminate, "fanout") == 0
    world.truth.failing.clear()
    await asyncio.to_thread(mesh.restart, "fanout")
    await world.settle()
    assert await world.shown(reader) == [post]


async def test_a_consumer_that_was_frozen_beyond_its_session_goes_on(world: World, mesh: Mesh) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    with stopped(mesh, "fanout"):
        posts = [await world.post(author)]
        await asyncio.sleep(2 * SESSION_SECONDS)
    posts.append(await world.post(author))
    await world.settle()
    assert await world.shown(reader) == posts[::-1]


# --- several processes -----------------------------------------------------------------------------------------------


async def test_processes_that_come_and_go_share_the_work_and_lose_and_repeat_nothing(world: World, mesh: Mesh) -> None:
    authors = [world.user() for _ in range(8)]
    readers = [world.user(*authors) for _ in range(3)]
    await world.open(*readers)
    crowd = world.crowd(2 * CHUNK, authors[0])
    await world.open(*crowd)
    posts: list[int] = []

    async def write() -> None:
        while True:
            posts.append(await world.post(authors[len(posts) % len(authors)]))
            await asyncio.sleep(0.02)

    writing = asyncio.create_task(write())
    await asyncio.to_thread(mesh.restart, SECOND)
    await asyncio.sleep(1)
    await asyncio.to_thread(mesh.kill, "fanout")
    await asyncio.sleep(1)
    await asyncio.to_thread(mesh.restart, "fanout")
    await asyncio.sleep(1)
    assert await asyncio.to_thread(mesh.terminate, SECOND) == 0
    writing.cancel()
    await asyncio.wait([writing])
    # The last may have been cancelled before its event was sent.
    await world.tell_of_post(max(world.truth.posts), world.truth.posts[max(world.truth.posts)])
    await world.settle()
    for reader in readers:
        assert await world.shown(reader) == world.truth.home(reader)[:LENGTH]
    for follower in crowd:
        assert await world.shown(follower) == world.truth.home(follower)[:LENGTH]


# --- a broker that hangs ---------------------------------------------------------------------------------------------


async def test_while_the_broker_hangs_calls_fail_in_time_and_afterwards_all_is_handled(
    world: World, mesh: Mesh
) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    await world.settle()
    with stopped(mesh, "kafka"):
        with pytest.raises(Unavailable):
            await world.progress()
        sending = asyncio.create_task(world.post(author))
        await asyncio.sleep(1)
    post = await sending
    await world.settle()
    assert await world.shown(reader) == [post]


@pytest.mark.parametrize("backend", ["kafka", "redis"])
async def test_a_stop_is_orderly_while_a_backend_hangs(world: World, mesh: Mesh, backend: str) -> None:
    author = world.user()
    await world.post(author)
    with stopped(mesh, backend):
        assert await asyncio.to_thread(mesh.terminate, "fanout") == 0
    await asyncio.to_thread(mesh.restart, "fanout")
    await world.settle()


async def test_it_survives_a_broker_that_dies_while_it_is_asked_how_far_it_is(world: World, mesh: Mesh) -> None:
    process = mesh.addresses.pids["fanout"]
    dead = asyncio.Event()

    async def ask() -> None:
        while not dead.is_set():
            with suppress(Unavailable):
                await world.progress()

    asking = asyncio.create_task(ask())
    for _ in range(3):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(mesh.kill, "kafka")
        await asyncio.sleep(0.3)
        await asyncio.to_thread(mesh.restart, "kafka")
    dead.set()
    await asking

    async def answers() -> bool:
        try:
            await world.progress()
        except Unavailable:
            return False
        return True

    await eventually(answers, "an answer")
    assert mesh.addresses.pids["fanout"] == process
    # The broker has forgotten everything, which a process that remembers its offsets does not expect of a broker.
    await asyncio.to_thread(mesh.kill, "fanout")
    await asyncio.to_thread(mesh.restart, "fanout")
