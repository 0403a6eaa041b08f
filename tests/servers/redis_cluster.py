"""A Redis Cluster of Debian's redis-server here: three primaries, each with a replica. It keeps no keys on disk."""

import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any, cast

import redis
from devmesh.backends import START_SECONDS, STOP_SECONDS, Backend
from devmesh.child import Child
from devmesh.errors import MeshError
from devmesh.guard import Guard
from devmesh.ports import free_ports

SLOTS = 16384
PRIMARIES = 3
NODE_TIMEOUT_MS = 1000
"""After so long a primary that is silent is taken to be dead; its replica has replaced it about a second later."""

_SETTINGS = {
    "bind": "127.0.0.1",
    "save": "",
    "appendonly": "no",
    "maxmemory-policy": "noeviction",
    "cluster-enabled": "yes",
    "cluster-config-file": "nodes.conf",
    "cluster-node-timeout": str(NODE_TIMEOUT_MS),
    # One primary that is lost must not take the others with it.
    "cluster-require-full-coverage": "no",
    # A replica that has been in step too long ago would not stand for election otherwise.
    "cluster-replica-validity-factor": "0",
    "cluster-allow-replica-migration": "no",
    "repl-diskless-sync-delay": "0",
    "repl-ping-replica-period": "1",
}


@dataclass(frozen=True)
class Node:
    """A server of the cluster, which keeps its number, its port and its identity whatever part it plays."""

    number: int
    port: int
    bus_port: int
    announced_port: int
    """Where clients, and other nodes, are told to go: the port itself, or that of something in between."""

    @property
    def id(self) -> str:
        """By which other nodes know it."""
        return f"{self.number + 1:040x}"

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self.port}"


class RedisCluster(Backend):
    """Nodes 0 to 2 begin as primaries of a third of the slots each, nodes 3 to 5 as their replicas.

    As one backend it is launched, ended and killed whole; its child is node 0. ``node`` and what follows it is for tests
    that touch single ones. ``in_front`` gives for a port what clients are to be told instead.
    """

    name = "redis"

    def __init__(
        self,
        *,
        port: int | None = None,
        guard: Guard | None = None,
        log: Path | None = None,
        in_front: Callable[[int], int] = lambda port: port,
    ) -> None:
        super().__init__(port=port, guard=guard, log=log)
        ports = [self.port, *free_ports(2 * PRIMARIES - 1)]
        bus_ports = free_ports(2 * PRIMARIES)
        self.nodes = [
            Node(number, port, bus_port, in_front(port))
            for number, (port, bus_port) in enumerate(zip(ports, bus_ports, strict=True))
        ]
        self._children: dict[int, Child] = {}

    @property
    def url(self) -> str:
        """``redis://host:port/0`` of node 0."""
        return f"redis://127.0.0.1:{self.nodes[0].announced_port}/0"

    def settings_for(self, database: str | None) -> Mapping[str, str]:
        return {"FEED_REDIS_URL": self.url, "FEED_REDIS_CLUSTER": "true"}

    def launch(self, cancelled: Event | None = None) -> None:
        for node in self.nodes:
            self.launch_node(node.number)

    def wait_ready(self, seconds: float = START_SECONDS, cancelled: Event | None = None) -> None:
        self._running().wait_until(self._is_whole, seconds, cancelled)

    def terminate(self) -> int | None:
        child, self._child = self._child, None
        children = [*self._children.values()]
        self._children.clear()
        for each in children:
            os.kill(each.pid, signal.SIGTERM)
        for each in children:
            each.end(signal.SIGTERM, STOP_SECONDS)
        return None if child is None else child.exit_code

    def kill(self) -> None:
        self._running()
        for each in self._children.values():
            each.kill()
        self._children.clear()
        self._child = None

    # --- single nodes --------------------------------------------------------------------------------------------------

    def launch_node(self, number: int) -> None:
        """Start a node that does not run; it finds its part in the cluster by itself, and its keys at its primary."""
        node = self.nodes[number]
        directory = self.guard.scratch / f"{self.name}-{number}"
        if not directory.exists():
            directory.mkdir()
            (directory / _SETTINGS["cluster-config-file"]).write_text(self._known_to(node))
        settings = {
            **_SETTINGS,
            "port": str(node.port),
            "cluster-port": str(node.bus_port),
            "cluster-announce-ip": "127.0.0.1",
            "cluster-announce-port": str(node.announced_port),
            "dir": str(directory),
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        child = Child(
            self.name,
            [_binary(), *options],
            guard=self.guard,
            log=self.log.with_stem(f"{self.log.stem}-{number}"),
            environment=os.environ,
            port=node.port,
        )
        self._children[number] = child
        if number == 0:
            self._child = child

    def kill_node(self, number: int) -> None:
        """End a node by SIGKILL."""
        self._children.pop(number).kill()

    def signal_node(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a node, such as SIGSTOP."""
        os.kill(self._children[number].pid, what)

    def ask(self, number: int, *command: str | bytes | int) -> Any:
        """The answer of one node; raises redis.RedisError."""
        with redis.Redis(port=self.nodes[number].port, socket_timeout=5) as client:
            return cast("Any", client).execute_command(*command)

    def primaries(self) -> list[int]:
        """The numbers of those nodes that run and take themselves for primaries."""
        return [number for number in self._children if self.ask(number, "ROLE")[0] == b"master"]

    def primary_of(self, slot: int) -> int:
        """The number of the node that has a slot, as the first node that runs sees it."""
        ports = {node.announced_port: node.number for node in self.nodes}
        for first, last, (_, port, *_), *_ in self.ask(next(iter(self._children)), "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return ports[port]
        raise MeshError(f"nobody has slot {slot}")

    def is_in_step(self) -> bool:
        """Whether every node runs, agrees that all are well, and every replica follows a primary."""
        return len(self._children) == len(self.nodes) and self._is_whole()

    def _is_whole(self) -> bool:
        return all(map(_is_well, (self.nodes[number].port for number in self._children)))

    def _known_to(self, node: Node) -> str:
        """The file in which a node notes what it knows of the cluster, as after a first meeting of all."""
        lines = [_known(other, myself=other is node) for other in self.nodes]
        return "".join([*lines, f"vars currentEpoch {PRIMARIES} lastVoteEpoch 0\n"])


def _known(node: Node, *, myself: bool) -> str:
    place = f"127.0.0.1:{node.announced_port}@{node.bus_port}"
    me = "myself," if myself else ""
    if node.number >= PRIMARIES:
        primary = f"{node.number - PRIMARIES + 1:040x}"
        return f"{node.id} {place} {me}slave {primary} 0 0 {node.number - PRIMARIES + 1} connected\n"
    first, end = [*pairwise(round(SLOTS * part / PRIMARIES) for part in range(PRIMARIES + 1))][node.number]
    return f"{node.id} {place} {me}master - 0 0 {node.number + 1} connected {first}-{end - 1}\n"


def _is_well(port: int) -> bool:
    try:
        with redis.Redis(port=port, socket_timeout=1) as client:
            ask: Callable[..., Any] = cast("Any", client).execute_command
            role: Sequence[Any] = ask("ROLE")
            follows = role[0] == b"master" or role[3] == b"connected"
            known: list[list[bytes]] = [line.split() for line in ask("CLUSTER", "NODES").splitlines()]
            all_known = not any(b"fail" in flags or b"handshake" in flags for _, _, flags, *_ in known)
            return follows and all_known and b"cluster_state:ok" in ask("CLUSTER", "INFO")
    except (redis.RedisError, OSError):
        return False


def _binary() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise MeshError("redis-server is not installed: run tests/servers/install")
    return found
