"""Apache Kafka: one broker that is its own controller (KRaft). Unlike the embedded one it keeps all over a restart."""

import fcntl
import os
import shutil
import signal
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, cast

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from devmesh.backends import STOP_SECONDS, Backend
from devmesh.backends.kafka import TOPICS
from devmesh.child import Child
from devmesh.guard import Guard
from devmesh.ports import free_ports

from tests.servers import INSTALLED, missing

_KAFKA = INSTALLED / "kafka"
_CLUSTER = "feedfeedfeedfeedfeedfA"
_NODE = 1
# Java starts in two seconds on an idle machine, and this is for one that is anything but idle.
START_SECONDS = 120.0
_ADMINISTRATION_SECONDS = 30.0
# A small broker of tests, which starts often and lives for minutes: no time for the second compiler.
_JAVA = (
    "java",
    "-Xms64m",
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_CLASSES = _KAFKA / "classes.jsa"
_FORMATTED = _KAFKA / "formatted"


class ApacheKafka(Backend):
    """A broker with `topics` (name → partitions). Its `address` is the bootstrap server."""

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
        [self._controller_port] = free_ports(1)

    def settings_for(self, database: str | None) -> Mapping[str, str]:
        return {"FEED_KAFKA_BROKERS": self.address}

    def launch(self, cancelled: Event | None = None) -> None:
        prepare(self.guard, self.log)
        data = self.guard.scratch / f"{self.name}-{self.port}"
        if not data.exists():
            shutil.copytree(_FORMATTED, data)
        self._child = _run(
            self.guard, self.log, data, self.port, self._controller_port, f"-XX:SharedArchiveFile={_CLASSES}"
        )

    def wait_ready(self, seconds: float = 0.0, cancelled: Event | None = None) -> None:
        self._running().wait_until(lambda: _listens(self.port), max(seconds, START_SECONDS), cancelled)
        self._create_topics()

    def terminate(self) -> int | None:
        child, self._child = self._child, None
        return None if child is None else child.end(signal.SIGTERM, STOP_SECONDS)

    def _create_topics(self) -> None:
        administrator = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        present = administrator.list_topics(timeout=_ADMINISTRATION_SECONDS).topics
        absent = [NewTopic(name, count, 1) for name, count in self._topics.items() if name not in present]
        if absent:
            creating = cast("dict[str, Future[None]]", cast("Any", administrator).create_topics(absent))
            for created in creating.values():
                created.result(_ADMINISTRATION_SECONDS)


def prepare(guard: Guard, log: Path) -> None:
    """Make, once on a machine, what lets a broker start in two seconds instead of six.

    That is formatted data, and an archive of the classes that it loads.
    """
    if not (_KAFKA / "libs").exists():
        raise missing("Apache Kafka")
    with (_KAFKA / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _CLASSES.exists() and _FORMATTED.exists():
            return
        shutil.rmtree(_FORMATTED, ignore_errors=True)
        draft = guard.scratch / "kafka-formatted"
        port, controller_port = free_ports(2)
        _format(guard, log, draft, port, controller_port)
        shutil.copytree(draft, _FORMATTED)
        archive = _CLASSES.with_suffix(".draft")
        broker = _run(guard, log, draft, port, controller_port, f"-XX:ArchiveClassesAtExit={archive}")
        broker.wait_until(lambda: _listens(port), START_SECONDS)
        broker.end(signal.SIGTERM, 2 * STOP_SECONDS)
        archive.replace(_CLASSES)


def _format(guard: Guard, log: Path, data: Path, port: int, controller_port: int) -> None:
    properties = _written_properties(guard, data, port, controller_port)
    command = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
    formatting = _java(guard, log, *command)
    if formatting.wait(START_SECONDS) != 0:
        raise formatting.death("while formatting its data directory")


def _run(guard: Guard, log: Path, data: Path, port: int, controller_port: int, *options: str) -> Child:
    properties = _written_properties(guard, data, port, controller_port)
    return _java(guard, log, *options, "kafka.Kafka", str(properties), port=port)


def _java(guard: Guard, log: Path, *words: str, port: int | None = None) -> Child:
    command = [*_JAVA, "-cp", str(_KAFKA / "libs" / "*"), *words]
    return Child("kafka", command, guard=guard, log=log, environment=os.environ, port=port)


def _written_properties(guard: Guard, data: Path, port: int, controller_port: int) -> Path:
    properties = {
        "process.roles": "broker,controller",
        "node.id": _NODE,
        "controller.quorum.voters": f"{_NODE}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        # One broker cannot hold three copies, which is the default of Kafka's own topics.
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # So long a broker that was killed is taken for alive, and may not come back; 9 s by default.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        # Every partition is files to be opened at each start; nobody here has many groups.
        "offsets.topic.num.partitions": 4,
        # By default no shorter than 6 s, longer than tests want to wait for those who died.
        "group.min.session.timeout.ms": 500,
        # Or every first member of a group would wait 3 s for others.
        "group.initial.rebalance.delay.ms": 0,
    }
    file = guard.scratch / f"kafka-{port}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return file


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
