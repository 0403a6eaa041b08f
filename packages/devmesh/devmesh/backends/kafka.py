"""A Kafka broker: librdkafka's mock cluster, which is inside the ``confluent-kafka`` wheel, as a process of its own.

It speaks the real protocol over TCP to real clients in other processes: keys, headers, compression, consumer groups,
committed offsets, idempotent producers. It does not create topics on an administrator's request (they are declared at
start), does not abort transactions, and keeps nothing: it forgets everything with its process, and the oldest records
of a partition beyond 5 MiB. The mock chooses its own port, so a relay listens on the one we want.

One that is started again knows no committed offsets either, so consumers begin with its first record, where
``auto.offset.reset`` is ``earliest``. But consumers that lived on look first at the offsets that they had reached, and
may pass over what was written before they looked, as they never would with a real broker. Whoever restarts the broker
restarts its consumers too; one that is only frozen for a while (SIGSTOP) loses no record.

One that was frozen for longer than a group's session, while members waited to join, drops them without an answer, as no
real broker would. They ask again 3 s after their ``max.poll.interval.ms``, which is 300 s if nothing else is set.

``python -m devmesh.backends.kafka --port 19092 --topic NAME:PARTITIONS ...`` runs the broker.
"""

import argparse
import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread

from devmesh.backends import START_SECONDS, STOP_SECONDS, Backend
from devmesh.child import Child
from devmesh.errors import MeshError
from devmesh.guard import Guard

PARTITIONS = 16
TOPICS: Mapping[str, int] = dict.fromkeys(
    (
        "feed.post.events.v1",
        "feed.graph.events.v1",
        "feed.engagement.events.v1",
        "feed.fanout.chunks.v1",
        "feed.reconcile.v1",
        "feed.dlq.v1",
    ),
    PARTITIONS,
)

_CHUNK_BYTES = 1 << 16
_KNOCK_SECONDS = 0.002


class Kafka(Backend):
    """A broker with ``topics`` (name → partitions) declared. Its ``address`` is the bootstrap server."""

    name = "kafka"

    def __init__(
        self,
        *,
        port: int | None = None,
        guard: Guard | None = None,
        log: Path | None = None,
        topics: Mapping[str, int] = TOPICS,
    ) -> None:
        super().__init__(port=port, guard=guard, log=log)
        self._topics = topics

    def settings_for(self, database: str | None) -> Mapping[str, str]:
        return {"FEED_KAFKA_BROKERS": self.address}

    def launch(self, cancelled: Event | None = None) -> None:
        topics = [word for name, count in self._topics.items() for word in ("--topic", f"{name}:{count}")]
        self._child = Child(
            self.name,
            [sys.executable, "-m", "devmesh.backends.kafka", "--port", str(self.port), *topics],
            guard=self.guard,
            log=self.log,
            environment=os.environ,
            port=self.port,
        )

    def wait_ready(self, seconds: float = START_SECONDS, cancelled: Event | None = None) -> None:
        # The relay listens only once the broker behind it does and knows its topics.
        self._running().wait_until(lambda: _listens(self.port), seconds, cancelled)

    def terminate(self) -> int | None:
        child, self._child = self._child, None
        return None if child is None else child.end(signal.SIGTERM, STOP_SECONDS)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


# --- the broker's own process ----------------------------------------------------------------------------------------


class MockCluster:
    """One broker of librdkafka's mock cluster, living on threads of this process.

    ``advertised`` is the port that clients are told; ``port`` the one it really listens on.
    """

    def __init__(self, topics: Mapping[str, int], advertised: int) -> None:
        library = _librdkafka()
        message = ctypes.create_string_buffer(512)
        # The cluster is an attachment of a client instance (0: a producer), which is otherwise unused.
        self._client = library.rd_kafka_new(0, library.rd_kafka_conf_new(), message, len(message))
        if not self._client:
            raise MeshError(f"librdkafka gives no client: {message.value.decode()}")
        self._cluster = library.rd_kafka_mock_cluster_new(self._client, 1)
        if not self._cluster:
            raise MeshError("librdkafka gives no mock cluster")
        bootstrap: bytes = library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        self.port = int(bootstrap.rpartition(b":")[2])
        with _kept_awake(self.port):
            for name, partitions in topics.items():
                if library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1) != 0:
                    raise MeshError(f"librdkafka refuses the topic {name} with {partitions} partitions")
            # As a real broker's group.initial.rebalance.delay.ms: 3 s by default, for every first join of a group.
            library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
            library.rd_kafka_mock_broker_set_host_port(self._cluster, 1, b"127.0.0.1", advertised)


@contextmanager
def _kept_awake(port: int) -> Generator[None]:
    """The mock's thread at times sleeps a whole second over what it was asked to do; a connection wakes it."""
    done = Event()

    def knock() -> None:
        while not done.wait(_KNOCK_SECONDS):
            _listens(port)

    knocking = Thread(target=knock)
    knocking.start()
    try:
        yield
    finally:
        done.set()
        knocking.join()


def _librdkafka() -> ctypes.CDLL:
    spec = find_spec("confluent_kafka")
    roots = [Path(root) for root in (spec.submodule_search_locations if spec is not None else None) or []]
    # Beside the package in wheels for Linux, inside it in those for macOS.
    places = [place for root in roots for place in (root.with_name(f"{root.name}.libs"), root / ".dylibs")]
    found = [path for place in places for path in place.glob("librdkafka*")]
    if not found:
        raise MeshError("the confluent-kafka package is not installed as a wheel, which is where librdkafka comes from")
    library = ctypes.CDLL(str(found[0]))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, number]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_topic_create", number, [pointer, text, number, number]),
        ("rd_kafka_mock_group_initial_rebalance_delay_ms", None, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_host_port", None, [pointer, ctypes.c_int32, text, number]),
    ):
        function = library[name]
        function.restype = result
        function.argtypes = arguments
        setattr(library, name, function)
    return library


async def _relay(port: int, target: int) -> None:
    """Pass every connection to ``port`` on to ``target``, until SIGTERM or SIGINT."""

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(_CHUNK_BYTES):
                sink.write(chunk)
                await sink.drain()
        except ConnectionError:
            pass  # either end may go at any time; the close below tells the other
        finally:
            sink.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pass_on(reader, broker_writer), pass_on(broker_reader, writer))

    stopped = asyncio.Event()
    for stop in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(stop, stopped.set)
    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await stopped.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devmesh.backends.kafka", description="Run a Kafka broker.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", action="append", default=[], metavar="NAME:PARTITIONS")
    arguments = parser.parse_args()
    declared: list[tuple[str, str, str]] = [topic.rpartition(":") for topic in arguments.topic]
    cluster = MockCluster({name: int(count) for name, _, count in declared}, advertised=arguments.port)
    asyncio.run(_relay(arguments.port, cluster.port))


if __name__ == "__main__":
    main()
