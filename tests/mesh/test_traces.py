"""One trace goes from the HTTP request through every hop, store and event, with the right parents."""

import asyncio
import json
import os
import secrets
import signal
import socket
import statistics
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import limits
import pytest
from collector import CLIENT, CONSUMER, PRODUCER, SERVER, CollectedSpan, Collector, collecting, tree
from devmesh.mesh import Mesh
from devmesh.ports import free_ports
from feed_api import FeedApi
from outages import stopped
from settling import settled
from stored_keys import StoredKeys
from timelines import posts_in_turn, users, warmed

pytestmark = pytest.mark.integration

FOLLOWERS = limits.THRESHOLD - 1
GRACE_SECONDS = 15.0
"""How long a process may take to end, in a cluster half of what it is given."""


def exporting_to(port: int, **settings: str) -> dict[str, str]:
    """Settings of a mesh that exports its traces to a port of this machine."""
    return {
        **limits.SETTINGS,
        # Long enough for what one read remembers to serve the next.
        "FEED_PULLED_STALENESS_SECONDS": "2",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        **settings,
    }


@dataclass(frozen=True)
class Traced:
    """A mesh that exports what callers ask to have traced, and its collector."""

    mesh: Mesh
    collector: Collector


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Generator[Traced]:
    """One for all tests of this module."""
    (port,) = free_ports(1)
    settings = exporting_to(port, OTEL_TRACES_SAMPLER="parentbased_always_off")
    with collecting(port) as collector, Mesh(settings, directory=tmp_path_factory.mktemp("traced")) as mesh:
        yield Traced(mesh, collector)


@pytest.fixture
async def api(traced: Traced) -> AsyncGenerator[FeedApi]:
    """The gateway of the traced mesh."""
    async with FeedApi(traced.mesh.addresses.gateway) as api:
        yield api


@pytest.fixture
async def stored(traced: Traced) -> AsyncGenerator[StoredKeys]:
    """The Redis of the traced mesh."""
    async with StoredKeys(traced.mesh.addresses.redis) as stored:
        yield stored


def new_trace() -> tuple[str, dict[str, str]]:
    """A trace id, and the header of a caller who started that trace and wants it recorded."""
    trace_id = secrets.token_hex(16)
    return trace_id, {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}


async def author_with_warm_followers(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> tuple[int, list[int]]:
    """An author who is pushed, in chunks of one follower each."""
    [author], followers = await users(api, "Author", 1), await users(api, "Follower", FOLLOWERS)
    for follower in followers:
        await api.follow(follower, author)
    await posts_in_turn(api, [author], 12)
    await warmed(mesh, api, stored, followers)
    return author, followers


# --- what a trace shows ------------------------------------------------------------------------------------------------

STORES = ("postgresql", "redis")


def hops(spans: Sequence[CollectedSpan]) -> Counter[tuple[str, str]]:
    """What follows from what, as parents and children tell: calls between processes, calls to stores, records sent and
    records handled."""
    by_id = {span.span_id: span for span in spans}
    found: Counter[tuple[str, str]] = Counter()
    for span in spans:
        parent = by_id.get(span.parent_id)
        if span.kind == SERVER and parent is not None:
            found[parent.process, f"{span.process} {span.name.rpartition('/')[2]}"] += 1
        elif span.kind == CLIENT and span.name.startswith(STORES):
            found[span.process, span.name.partition(" ")[0]] += 1
        elif span.kind in (PRODUCER, CONSUMER) and parent is not None:
            found[parent.process, f"{span.process} {span.name}"] += 1
    return found


def shows(*expected: tuple[str, str]) -> Callable[[Sequence[CollectedSpan]], bool]:
    """Whether a trace shows all these hops."""
    return lambda spans: set(expected) <= hops(spans).keys()


def assert_whole(spans: Sequence[CollectedSpan]) -> None:
    """One root, every other span under a known parent and within its time."""
    by_id = {span.span_id: span for span in spans}
    roots = [span for span in spans if span.parent_id not in by_id]
    assert [(root.process, root.kind) for root in roots] == [("gateway", SERVER)], tree(spans)
    for span in spans:
        if span not in roots:
            parent = by_id[span.parent_id]
            # Different processes read the same clock; a server's span may end a moment after its caller has the answer,
            # and a record is handled after it was sent.
            assert parent.start <= span.start, tree(spans)
            if parent.process == span.process and PRODUCER not in (parent.kind, span.kind):
                assert span.end <= parent.end, tree(spans)


CREATE = (
    ("gateway", "graph BatchGetUsers"),
    ("graph", "postgresql"),
    ("gateway", "post CreatePost"),
    ("post", "graph BatchGetUsers"),
    ("post", "postgresql"),
    ("post", "redis"),
    ("post", "post-relay send feed.post.events.v1"),
    ("post-relay", "fanout process feed.post.events.v1"),
    ("fanout", "graph ClassifyAuthors"),
    ("fanout", "graph StreamActiveFollowers"),
    ("fanout", "redis"),
    ("fanout", "fanout send feed.fanout.chunks.v1"),
    ("fanout", "fanout process feed.fanout.chunks.v1"),
)
COLD_READ = (
    ("gateway", "timeline GetHomeTimeline"),
    ("timeline", "redis"),
    ("timeline", "graph GetViewerContext"),
    ("graph", "postgresql"),
    ("timeline", "post ListRecentByAuthors"),
    ("post", "postgresql"),
    ("timeline", "hydrate HydratePosts"),
    ("hydrate", "redis"),
    ("hydrate", "post BatchGetPosts"),
    ("hydrate", "graph BatchGetUsers"),
)
WARM_READ = Counter(
    {
        ("gateway", "timeline GetHomeTimeline"): 1,
        ("timeline", "redis"): 1,
        ("timeline", "hydrate HydratePosts"): 1,
        ("hydrate", "redis"): 1,
    }
)


async def test_one_trace_shows_the_way_of_a_post_into_every_followers_timeline(
    traced: Traced, api: FeedApi, stored: StoredKeys
) -> None:
    _, followers = await author_with_warm_followers(traced.mesh, api, stored)
    author = await api.create_user("Newcomer")
    for follower in followers:
        await api.follow(follower, author)
    await settled(traced.mesh)
    trace_id, header = new_trace()
    created = await api.call("POST", "/api/posts", viewer=author, json={"content": "traced"}, headers=header)
    assert created.status_code == 201
    chunk = ("fanout", "fanout process feed.fanout.chunks.v1")

    def delivered(spans: Sequence[CollectedSpan]) -> bool:
        return shows(*CREATE)(spans) and hops(spans)[chunk] == FOLLOWERS

    spans = await traced.collector.settled_trace(trace_id, delivered)
    print(f"\n{tree(spans)}")
    assert set(CREATE) <= hops(spans).keys(), tree(spans)
    assert_whole(spans)
    assert {"post", "post-relay", "fanout"} <= {span.process for span in spans}
    for follower in followers:
        assert (await stored.timeline_ids(follower))[0] == int(created.json()["id"])


async def test_events_that_are_handled_together_are_linked_to_the_trace_of_each(
    traced: Traced, api: FeedApi, stored: StoredKeys
) -> None:
    author, _ = await author_with_warm_followers(traced.mesh, api, stored)
    traces: list[str] = []
    async with stopped(traced.mesh, "fanout"):
        for _ in range(3):
            trace_id, header = new_trace()
            await api.call("POST", "/api/posts", viewer=author, json={"content": "traced"}, headers=header)
            traces.append(trace_id)
    await settled(traced.mesh)

    def handled(spans: Sequence[CollectedSpan], trace_id: str) -> bool:
        """Whether fan-out handled what this trace sent: as a child of it, or linked to it."""
        sent = {(span.trace_id, span.span_id) for span in spans if span.kind == PRODUCER and span.trace_id == trace_id}
        handlers = [span for span in spans if span.process == "fanout" and span.kind == CONSUMER]
        return any((span.trace_id, span.parent_id) in sent or not sent.isdisjoint(span.links) for span in handlers)

    for _ in range(100):
        if all(handled(traced.collector.spans, trace_id) for trace_id in traces):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("\n".join(tree(traced.collector.trace(trace_id)) for trace_id in traces))


async def test_one_trace_shows_the_way_of_a_cold_read(traced: Traced, api: FeedApi, stored: StoredKeys) -> None:
    author, [viewer, *_] = await author_with_warm_followers(traced.mesh, api, stored)
    await stored.flush()
    trace_id, header = new_trace()
    read = await api.call("GET", "/api/feed", viewer=viewer, headers=header)
    assert {item["authorId"] for item in read.json()["items"]} == {str(author)}
    spans = await traced.collector.settled_trace(trace_id, shows(*COLD_READ))
    print(f"\n{tree(spans)}")
    assert set(COLD_READ) <= hops(spans).keys(), tree(spans)
    assert_whole([span for span in spans if span.process in {"gateway", "timeline", "hydrate", "post", "graph"}])


async def test_a_warm_read_asks_redis_twice_and_nobody_else(traced: Traced, api: FeedApi, stored: StoredKeys) -> None:
    author, [viewer, *_] = await author_with_warm_followers(traced.mesh, api, stored)
    fans = await users(api, "Fan", limits.THRESHOLD)
    [celebrity] = await users(api, "Celebrity", 1)
    for follower in [*fans, viewer]:
        await api.follow(follower, celebrity)
    await posts_in_turn(api, [celebrity, viewer], 2)
    await settled(traced.mesh)
    for _ in range(2):
        await api.feed(viewer, limit="10")
    trace_id, header = new_trace()
    read = await api.call("GET", "/api/feed", viewer=viewer, params={"limit": "10"}, headers=header)
    assert {item["authorId"] for item in read.json()["items"]} == {str(one) for one in (author, celebrity, viewer)}
    spans = await traced.collector.settled_trace(trace_id, shows(*WARM_READ))
    print(f"\n{tree(spans)}")
    assert hops(spans) == WARM_READ, tree(spans)
    assert_whole(spans)


async def test_an_event_carries_its_trace_into_the_outbox(traced: Traced, api: FeedApi) -> None:
    author = await api.create_user("Author")
    async with stopped(traced.mesh, "post-relay"):
        trace_id, header = new_trace()
        created = await api.call("POST", "/api/posts", viewer=author, json={"content": "traced"}, headers=header)
        assert trace_id in await outbox_traceparent(traced.mesh, int(created.json()["id"]))


async def outbox_traceparent(mesh: Mesh, post_id: int) -> str:
    """What the event of a post tells a consumer about its trace."""
    from feed.events.v1 import events_pb2

    connection = await asyncpg.connect(mesh.addresses.postgres["post"])
    try:
        rows = await connection.fetch("SELECT payload, headers FROM outbox")
    finally:
        await connection.close()
    headers = {events_pb2.PostEvent.FromString(row["payload"]).post_id: json.loads(row["headers"]) for row in rows}
    return headers[post_id]["traceparent"]


@pytest.mark.parametrize("traceparent", ["", "00", "junk", "00-zz-zz-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
async def test_a_malformed_traceparent_is_ignored(api: FeedApi, traceparent: str) -> None:
    header = {"traceparent": traceparent}
    user = await api.call("POST", "/api/users", json={"name": "Ada"}, headers=header)
    assert user.status_code == 201
    viewer = int(user.json()["id"])
    created = await api.call("POST", "/api/posts", viewer=viewer, json={"content": "untraced"}, headers=header)
    assert created.status_code == 201
    read = await api.call("GET", "/api/feed", viewer=viewer, headers=header)
    assert [item["id"] for item in read.json()["items"]] == [created.json()["id"]]


# --- a collector that never answers ------------------------------------------------------------------------------------


@pytest.fixture
def black_hole() -> Generator[int]:
    """The port of a collector that takes connections and says nothing, ever."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


async def read_ms(api: FeedApi, viewer: int) -> float:
    """The usual time of a read, in milliseconds."""
    took: list[float] = []
    for _ in range(100):
        started = time.perf_counter()
        await api.feed(viewer)
        took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took)


def ending(pid: int) -> tuple[int, int]:
    """How a child of this process ended, once it has: by itself or by a signal, and its exit code or that signal.

    It is left for its mesh to reap.
    """
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert end is not None
    return end.si_code, end.si_status


async def test_a_collector_that_never_answers_delays_neither_requests_nor_exits(
    traced: Traced, api: FeedApi, stored: StoredKeys, black_hole: int, tmp_path: Path
) -> None:
    _, [viewer, *_] = await author_with_warm_followers(traced.mesh, api, stored)
    usual = await read_ms(api, viewer)
    with Mesh(exporting_to(black_hole, OTEL_TRACES_SAMPLER="always_on"), directory=tmp_path) as mesh:
        addresses = mesh.addresses
        async with FeedApi(addresses.gateway) as lonely_api, StoredKeys(addresses.redis) as its_stored:
            _, [viewer, *_] = await author_with_warm_followers(mesh, lonely_api, its_stored)
            # Every request is traced here, which costs something, and the machine has other things to do.
            assert await read_ms(lonely_api, viewer) < 5 * usual + 20
        pids = {name: pid for name, pid in addresses.pids.items() if name in addresses.grpc or name == "gateway"}
        for pid in pids.values():
            os.kill(pid, signal.SIGTERM)
        async with asyncio.timeout(GRACE_SECONDS):
            endings = {name: await asyncio.to_thread(ending, pid) for name, pid in pids.items()}
        assert endings == dict.fromkeys(pids, (os.CLD_EXITED, 0))
