"""An event is there exactly when the change that it tells of is."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from feed.graph.v1 import graph_pb2
from feed.post.v1 import post_pb2
from feedkit import kafka, outbox, telemetry
from feedkit.postgres import Database
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

pytestmark = pytest.mark.integration

TABLE = outbox.__doc__ or ""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
POST = post_pb2.Post(id=1, content="字")
USER = graph_pb2.User(id=2, name="Ann")


@pytest.fixture
async def database(open_database: Callable[..., Awaitable[Database]]) -> AsyncIterator[Database]:
    """A database with the table that the module tells services to make."""
    database = await open_database()
    async with database.connection() as connection:
        create = TABLE[TABLE.index("CREATE TABLE") : TABLE.index(");") + 2]
        await connection.execute(create)
        yield database
        await connection.execute("DROP TABLE outbox")


async def rows(database: Database) -> list[tuple[str, str, str, bytes]]:
    async with database.connection() as connection:
        found = await connection.fetch("SELECT topic, key, type, payload FROM outbox ORDER BY id")
    return [(row["topic"], row["key"], row["type"], row["payload"]) for row in found]


async def test_events_are_committed_with_their_change_in_order(database: Database) -> None:
    async with database.transaction() as connection:
        await outbox.append(connection, kafka.POST_EVENTS, [(17, POST), (2**63 - 1, USER)])
        assert await rows(database) == []
    assert await rows(database) == [
        ("feed.post.events.v1", "17", "feed.post.v1.Post", POST.SerializeToString()),
        ("feed.post.events.v1", str(2**63 - 1), "feed.graph.v1.User", USER.SerializeToString()),
    ]


async def test_events_are_rolled_back_with_their_change(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as connection:
            await outbox.append(connection, kafka.GRAPH_EVENTS, [(17, USER)])
            raise ZeroDivisionError
    assert await rows(database) == []


async def test_no_events_are_no_statement(database: Database) -> None:
    async with database.transaction() as connection:
        await outbox.append(connection, kafka.GRAPH_EVENTS, [])
    assert await rows(database) == []


async def headers(database: Database) -> dict[str, str]:
    async with database.connection() as connection:
        return json.loads(await connection.fetchval("SELECT headers FROM outbox"))


@pytest.mark.parametrize("flags", ["00", "01"])
async def test_an_event_carries_the_trace_of_its_request(
    database: Database, spans: InMemorySpanExporter, flags: str
) -> None:
    parent = telemetry.extract({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-{flags}", "tracestate": "vendor=value"})
    with telemetry.server_span("request", parent, {}) as request:
        async with database.transaction() as connection:
            await outbox.append(connection, kafka.POST_EVENTS, [(1, POST)])
    span_id = f"{request.get_span_context().span_id:016x}"
    expected = {"traceparent": f"00-{TRACE}-{span_id}-{flags}", "tracestate": "vendor=value"}
    assert await headers(database) == expected
    assert [span.name for span in spans.get_finished_spans()].count("postgresql INSERT") == int(flags)


async def test_an_event_outside_any_request_has_no_trace(database: Database) -> None:
    async with database.transaction() as connection:
        await outbox.append(connection, kafka.POST_EVENTS, [(1, POST)])
    assert await headers(database) == {}
