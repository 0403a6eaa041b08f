"""A Redis Cluster of Debian's redis-server here: three primaries, each with a replica. It keeps no keys on disk."""

import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    that touch single ones. ``announced``: the ports of all nodes, where something stands in front of them, with those that
    clients and other nodes are told instead.
    """

    name = "redis"

    def __init__(
        self,
        *,
        port: int | None = None,
        guard: Guard | None = None,
        log: Path | None = None,
        announced: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(port=next(iter(announced)) if announced else port, guard=guard, log=log)
        told = announced or {port: port for port in (self.port, *free_ports(2 * PRIMARIES - 1))}
        bus_ports = free_ports(2 * PRIMARIES)
        self.nodes = [
            Node(number, port, bus_port, told[port])
            for number, (port, bus_port) in enumerate(zip(told, bus_ports, strict=True))
        ]
        self._children: dict[int, Child] = {}
        self._silent: set[int] = set()

    @property
    def children(self) -> list[Child]:
        return [*self._children.values()]

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
            known = self._known_to(node) if number < 2 * PRIMARIES else _known(node, myself=True, alone=True)
            (directory / _SETTINGS["cluster-config-file"]).write_text(known)
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

    def join(self) -> int:
        """Let one node more join, with nothing of its own; its number."""
        port, bus_port = free_ports(2)
        self.nodes.append(Node(len(self.nodes), port, bus_port, port))
        number = len(self.nodes) - 1
        self.launch_node(number)
        self._children[number].wait_until(lambda: _answers(port), START_SECONDS)
        self.ask(0, "CLUSTER", "MEET", "127.0.0.1", port, bus_port)
        self._children[number].wait_until(self._is_whole, START_SECONDS)
        return number

    def leave(self, number: int) -> None:
        """Let the others forget a node that has no slots, and end it; it was the last that joined."""
        self.end_node(number, signal.SIGKILL)
        node = self.nodes.pop()
        for other in self._children:
            self.ask(other, "CLUSTER", "FORGET", node.id)

    def move_slot(self, slot: int, to: int, *, each: Callable[[], None] = lambda: None) -> None:
        """Move a slot to another primary as operators do, while clients go on; ``each`` is called after every step."""
        source, target = self.primary_of(slot), self.nodes[to]
        self.ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.nodes[source].id)
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        each()
        while names := self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1):
            self.ask(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *names)
            each()
        for number in (to, source, *set(self.primaries()) - {to, source}):
            self.ask(number, "CLUSTER", "SETSLOT", slot, "NODE", target.id)
            each()

    def runs(self, number: int) -> bool:
        """Whether a node is running, be it stopped."""
        return number in self._children

    def end_node(self, number: int, how: signal.Signals) -> None:
        """Kill a node, or stop it so that it answers nothing until it is sent SIGCONT."""
        if how is signal.SIGKILL:
            self._children.pop(number).kill()
        else:
            self.signal_node(number, how)

    def signal_node(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a node, such as SIGSTOP."""
        os.kill(self._children[number].pid, what)
        (self._silent.add if what is signal.SIGSTOP else self._silent.discard)(number)

    def ask(self, number: int, *command: str | bytes | int) -> Any:
        """The answer of one node; raises redis.RedisError."""
        with redis.Redis(port=self.nodes[number].port, socket_timeout=1) as client:
            return cast("Any", client).execute_command(*command)

    def primaries(self) -> list[int]:
        """The numbers of those nodes that answer and take themselves for primaries."""
        return [number for number in self._answering() if self.ask(number, "ROLE")[0] == b"master"]

    def primary_of(self, slot: int) -> int:
        """The number of the node that has a slot, in a cluster that is whole."""
        [owner] = self.owners(slot)
        return owner

    def owners(self, slot: int) -> set[int]:
        """The numbers of the nodes that have a slot, as all see it that answer: more than one while it changes."""
        ports = {node.announced_port: node.number for node in self.nodes}
        owners: set[int] = set()
        for number in self._answering():
            with suppress(redis.RedisError):
                for first, last, (_, port, *_), *_ in self.ask(number, "CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        owners.add(ports[port])
        return owners

    def _answering(self) -> list[int]:
        return [number for number in self._children if number not in self._silent]

    def follows(self, number: int) -> int | None:
        """The number of the primary that a node is a replica of."""
        role = self.ask(number, "ROLE")
        ports = {node.announced_port: node.number for node in self.nodes}
        return None if role[0] == b"master" else ports[role[2]]

    def is_in_step(self) -> bool:
        """Whether every node runs, agrees that all are well, and every replica follows a primary."""
        return len(self._children) == len(self.nodes) and self._is_whole()

    def _is_whole(self) -> bool:
        return all(map(_is_well, (self.nodes[number].port for number in self._children)))

    def _known_to(self, node: Node) -> str:
        """The file in which a node notes what it knows of the cluster, as after a first meeting of all."""
        lines = [_known(other, myself=other is node) for other in self.nodes[: 2 * PRIMARIES]]
        return "".join([*lines, f"vars currentEpoch {PRIMARIES} lastVoteEpoch 0\n"])


def _known(node: Node, *, myself: bool, alone: bool = False) -> str:
    place = f"127.0.0.1:{node.announced_port}@{node.bus_port}"
    me = "myself," if myself else ""
    if alone:
        return f"{node.id} {place} {me}master - 0 0 0 connected\n"
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


def _answers(port: int) -> bool:
    try:
        with redis.Redis(port=port, socket_timeout=1) as client:
            return cast("Any", client).ping()
    except (redis.RedisError, OSError):
        return False


def _binary() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise MeshError("redis-server is not installed: run tests/servers/install")
    return found
