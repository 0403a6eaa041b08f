"""One trace goes from the HTTP request through every hop, with the right parents."""

import json
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import asyncpg
import pytest
from collector import CLIENT, SERVER, CollectedSpan, Collector, collecting, tree
from devmesh.mesh import Mesh
from devmesh.ports import free_ports
from feed_api import FeedApi

pytestmark = pytest.mark.integration

Traced = tuple[Collector, Mesh, FeedApi]


@pytest.fixture
async def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Traced]:
    """A mesh of its own that exports what callers ask to have traced."""
    (port,) = free_ports(1)
    settings = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    async with collecting(port) as collector:
        with Mesh(settings, directory=tmp_path) as mesh:
            async with FeedApi(mesh.addresses.gateway) as api:
                yield collector, mesh, api


def new_trace() -> tuple[str, dict[str, str]]:
    """A trace id, and the header of a caller who started that trace and wants it recorded."""
    trace_id = secrets.token_hex(16)
    return trace_id, {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}


def hops(spans: Sequence[CollectedSpan]) -> set[tuple[str, str]]:
    """Calls from process to process, and from process to store, as parents and children tell them."""
    by_id = {span.span_id: span for span in spans}
    found: set[tuple[str, str]] = set()
    for span in spans:
        parent = by_id.get(span.parent_id)
        if span.kind == SERVER and parent is not None:
            found.add((parent.process, f"{span.process} {span.name.rpartition('/')[2]}"))
        elif span.kind == CLIENT and span.name.startswith("postgresql"):
            found.add((span.process, "postgresql"))
    return found


def shows(*expected: tuple[str, str]) -> Callable[[Sequence[CollectedSpan]], bool]:
    """Whether a trace shows all these hops."""
    return lambda spans: set(expected) <= hops(spans)


def assert_whole(spans: Sequence[CollectedSpan]) -> None:
    """One root, every other span under a known parent and within its time."""
    by_id = {span.span_id: span for span in spans}
    roots = [span for span in spans if span.parent_id not in by_id]
    assert [(root.process, root.kind) for root in roots] == [("gateway", SERVER)], tree(spans)
    for span in spans:
        if span not in roots:
            parent = by_id[span.parent_id]
            # Different processes read the same clock; a server's span may end a moment after its caller has the answer.
            assert parent.start <= span.start, tree(spans)
            if parent.process == span.process:
                assert span.end <= parent.end, tree(spans)


CREATE = (
    ("gateway", "graph BatchGetUsers"),
    ("graph", "postgresql"),
    ("gateway", "post CreatePost"),
    ("post", "graph BatchGetUsers"),
    ("post", "postgresql"),
)
READ = (
    ("gateway", "timeline GetHomeTimeline"),
    ("timeline", "graph GetViewerContext"),
    ("graph", "postgresql"),
    ("timeline", "post ListRecentByAuthors"),
    ("post", "postgresql"),
    ("timeline", "hydrate HydratePosts"),
    ("hydrate", "post BatchGetPosts"),
    ("hydrate", "graph BatchGetUsers"),
)


async def test_one_trace_shows_every_hop_of_a_create_and_one_of_a_read(traced: Traced) -> None:
    collector, mesh, api = traced
    author = await api.create_user("Ada")

    trace_id, header = new_trace()
    created = await api.call("POST", "/api/posts", viewer=author, json={"content": "traced"}, headers=header)
    assert created.status_code == 201
    spans = await collector.settled_trace(trace_id, shows(*CREATE))
    print(f"\n{tree(spans)}")
    assert set(CREATE) <= hops(spans), tree(spans)
    assert_whole(spans)
    assert trace_id in await outbox_traceparent(mesh, int(created.json()["id"]))

    trace_id, header = new_trace()
    read = await api.call("GET", "/api/feed", viewer=author, headers=header)
    assert [item["id"] for item in read.json()["items"]] == [created.json()["id"]]
    spans = await collector.settled_trace(trace_id, shows(*READ))
    print(f"\n{tree(spans)}")
    assert set(READ) <= hops(spans), tree(spans)
    assert_whole(spans)


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
    answer = await api.call("POST", "/api/users", json={"name": "Ada"}, headers={"traceparent": traceparent})
    assert answer.status_code == 201
