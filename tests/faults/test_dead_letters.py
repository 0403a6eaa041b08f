"""What nobody can make sense of holds up nobody, is kept with its place and reason, and can be handled once more."""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException, Producer
from devmesh.mesh import Mesh
from feed.events.v1 import events_pb2
from feed_api import FeedApi
from feedctl import dead_letters
from feedctl.__main__ import main
from feedkit import kafka
from outages import silent, stopped
from polling import until
from settling import settled
from stored_keys import StoredKeys
from timelines import users, warmed

pytestmark = pytest.mark.integration

TYPE = "feed.events.v1.PostEvent"
FRESH_SECONDS = 5.0
"""Within what time a post has to be there though there is poison beside it."""


@pytest.fixture
def state(mesh: Mesh, tmp_path: Path) -> Path:
    """The state file of the shared mesh."""
    file = tmp_path / "state.json"
    file.write_text(mesh.addresses.to_json())
    return file


async def feedctl(state: Path, *arguments: str) -> Result:
    """Run a command beside the event loop."""
    runner = CliRunner(env={"COLUMNS": "300"})
    return await asyncio.to_thread(runner.invoke, main, ["--state", str(state), *arguments])


async def letters_of(state: Path, key: int, *options: str) -> list[dict[str, Any]]:
    """What was set aside of an author's records."""
    result = await feedctl(state, "dlq", "list", "--json", "--limit", "100000", *options)
    assert result.exit_code == 0, result.output
    return [told for told in map(json.loads, result.output.splitlines()) if told["key"] == str(key)]


async def send(mesh: Mesh, topic: str, key: int, value: bytes, headers: dict[str, str]) -> KafkaError | None:
    """Send a record as any client might; what the broker, or the client for it, said against it."""

    def sent() -> KafkaError | None:
        said: list[KafkaError | None] = []
        # More than the broker takes is for the broker to refuse.
        producer = Producer({"bootstrap.servers": mesh.addresses.kafka, "message.max.bytes": 10_000_000})
        producer.produce(
            topic, value, str(key), headers=dict(headers), on_delivery=lambda error, _message: said.append(error)
        )
        assert producer.flush(10) == 0
        return said[0]

    return await asyncio.to_thread(sent)


async def author_and_reader(mesh: Mesh, api: FeedApi, stored: StoredKeys) -> tuple[int, int]:
    """An author, and a follower whose timeline stands."""
    author, reader = await users(api, "Somebody", 2)
    await api.follow(reader, author)
    await warmed(mesh, api, stored, [reader])
    return author, reader


POISON: dict[str, tuple[bytes, dict[str, str], str]] = {
    "random bytes": (b"\xff\x00\xfe", {"type": TYPE}, "no feed.events.v1.PostEvent"),
    "an empty value": (b"", {"type": TYPE}, "empty"),
    "an unknown type": (b"\x08\x01", {"type": "feed.events.v1.Surprise"}, "Surprise"),
    "no headers": (b"\x08\x01", {}, "`type` is ''"),
}


async def test_hand_14_poison_holds_up_nobody_and_is_kept_with_its_place_and_reason(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, state: Path
) -> None:
    author, reader = await author_and_reader(mesh, api, stored)
    written: list[int] = []
    for value, headers, _ in POISON.values():
        # The author's own key, and so the partition of their posts.
        assert await send(mesh, kafka.POST_EVENTS, author, value, headers) is None
        written.insert(0, int((await api.create_post(author, "Beside poison"))["id"]))
    nobody = events_pb2.PostEvent(post_id=1, author_id=2**62, kind=events_pb2.POST_EVENT_KIND_CREATED)
    assert await send(mesh, kafka.POST_EVENTS, author, nobody.SerializeToString(), {"type": TYPE}) is None
    await send(mesh, kafka.POST_EVENTS, author, bytes(5_000_000), {"type": TYPE})
    written.insert(0, int((await api.create_post(author, "After all that"))["id"]))

    async def delivered() -> bool:
        return await stored.timeline_ids(reader) == written

    await until(delivered, "posts beside poison", FRESH_SECONDS)
    found = await letters_of(state, author)
    for value, _, reason in POISON.values():
        [letter] = [told for told in found if reason in told["reason"] and told["payloadBytes"] == len(value)]
        assert letter["topic"] == kafka.POST_EVENTS
        assert letter["partition"] >= 0
        assert letter["offset"] >= 0
    places = {(told["partition"], told["offset"]) for told in found}
    assert len(places) == len(found), "each record once"


async def test_hand_14_a_restart_neither_sticks_at_poison_nor_sets_it_aside_again(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, state: Path
) -> None:
    author, reader = await author_and_reader(mesh, api, stored)
    await send(mesh, kafka.POST_EVENTS, author, b"\xff", {"type": TYPE})
    await settled(mesh)
    async with stopped(mesh, "fanout"):
        post = int((await api.create_post(author, "Hello"))["id"])
    await settled(mesh)
    assert await stored.timeline_ids(reader) == [post]
    assert len(await letters_of(state, author)) == 1


async def test_hand_14_what_fails_for_a_while_is_not_set_aside(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, state: Path
) -> None:
    author, reader = await author_and_reader(mesh, api, stored)
    async with silent(mesh, "redis"):
        creating = asyncio.create_task(api.create_post(author, "Hello"))
        await asyncio.sleep(3)  # longer than an answer is waited for, several times
    post = int((await creating)["id"])
    await settled(mesh)
    assert await stored.timeline_ids(reader) == [post]
    assert await letters_of(state, author) == []


# --- feedctl dlq ------------------------------------------------------------------------------------------------------


async def test_a_record_that_was_set_aside_is_handled_when_it_is_replayed(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, state: Path
) -> None:
    author, reader = await author_and_reader(mesh, api, stored)
    async with stopped(mesh, "post-relay"):
        post = int((await api.create_post(author, "Hello"))["id"])
        database = await asyncpg.connect(mesh.addresses.postgres["post"])
        event = await database.fetchrow("DELETE FROM outbox WHERE key = $1 RETURNING type, payload", str(author))
        await database.close()
    assert event is not None
    set_aside = {"reason": "an old fault", "topic": kafka.POST_EVENTS, "partition": "3", "offset": "17"}
    headers = {"type": event["type"], **set_aside}
    assert await send(mesh, kafka.DEAD_LETTERS, author, event["payload"], headers) is None
    await settled(mesh)
    assert await stored.timeline_ids(reader) == []

    [letter] = await letters_of(state, author)
    assert (letter["reason"], letter["partition"], letter["offset"]) == ("an old fault", 3, 17)
    for _ in range(2):  # whatever was handled already is handled again to the same end
        result = await feedctl(state, "dlq", "replay", letter["place"], "--yes")
        assert result.exit_code == 0, result.output
        assert "1 records were sent once more" in result.output
        await settled(mesh)
        assert await stored.timeline_ids(reader) == [post]


async def test_letters_are_selected_by_time_reason_and_topic(mesh: Mesh, state: Path, api: FeedApi) -> None:
    [author] = await users(api, "Somebody", 1)
    for reason, topic in (("bad weather", kafka.POST_EVENTS), ("bad mood", kafka.GRAPH_EVENTS)):
        await send(mesh, kafka.DEAD_LETTERS, author, b"x", {"reason": reason, "topic": topic, "type": "T"})

    async def reasons(*options: str) -> list[str]:
        return [told["reason"] for told in await letters_of(state, author, *options)]

    assert sorted(await reasons()) == ["bad mood", "bad weather"]
    assert await reasons("--reason", "weather") == ["bad weather"]
    assert await reasons("--topic", kafka.GRAPH_EVENTS) == ["bad mood"]
    assert await reasons("--until", "2024-01-01") == []
    assert await reasons("--since", "2100-01-01") == []
    assert len(await reasons("--since", "2024-01-01", "--until", "2100-01-01")) == 2
    table = (await feedctl(state, "dlq", "list", "--reason", "bad mood")).output
    assert all(word in table for word in ("bad mood", kafka.GRAPH_EVENTS, str(author), "set aside"))


async def test_what_cannot_be_sent_once_more_is_told(mesh: Mesh, state: Path, api: FeedApi) -> None:
    [author] = await users(api, "Somebody", 1)
    cut = {"reason": "r", "topic": kafka.POST_EVENTS, "value-bytes": "900000"}
    await send(mesh, kafka.DEAD_LETTERS, author, b"x", cut)
    await send(mesh, kafka.DEAD_LETTERS, author, b"x", {"reason": "r", "topic": "of.somebody.else"})
    places = [told["place"] for told in await letters_of(state, author)]
    result = await feedctl(state, "dlq", "replay", "--yes", *places)
    assert result.exit_code == 1
    assert "only 1 of its 900000 bytes were kept" in result.output
    assert "'of.somebody.else' is none of the topics" in result.output
    missing = await feedctl(state, "dlq", "replay", "--yes", "0:999999999")
    assert (missing.exit_code, "there is no record at 0:999999999" in missing.output) == (1, True)


async def test_a_broker_that_is_away_is_told_in_one_line(
    mesh: Mesh, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "SECONDS", 1.0)
    async with silent(mesh, "kafka"):
        result = await feedctl(state, "dlq", "list")
    assert result.exit_code == 1
    assert result.output.startswith("Error: feed.dlq.v1 cannot be read: ")
    assert not isinstance(result.exception, KafkaException)
