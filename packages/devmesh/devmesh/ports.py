"""The ports of a mesh: the fixed ones people know, or free ones for tests; and plain words when one is taken."""

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from devmesh.errors import MeshError
from devmesh.processes import PROCESSES, Process

GATEWAY = 8080
# Below every ephemeral range, or a client's closed connection that lingers could hold one of them for a minute.
POSTGRES = 15432
REDIS = 16379
KAFKA = 19092

# Below every ephemeral range, so that no client's outgoing connection takes a port between our choosing it and the
# server's listening on it, nor while a killed process is down.
_FREE_RANGE = range(20_000, 32_000)
_BLOCK = 1_000
"""How many of them a process keeps from others that choose at the same time, as test runs side by side do."""

_chosen: set[int] = set()
"""Those that were given out, so that one that is not listened on yet is not given out again."""


@dataclass(frozen=True)
class Ports:
    """Where everything of a mesh listens, on 127.0.0.1."""

    gateway: int
    grpc: Mapping[str, int]
    """By process; the processes that serve gRPC."""
    postgres: int
    redis: int
    kafka: int

    @classmethod
    def fixed(cls, gateway: int = GATEWAY, processes: Iterable[Process] = PROCESSES) -> "Ports":
        """The ports that the documentation names."""
        grpc = {process.name: process.port for process in processes if process.serves == "grpc"}
        return cls(gateway=gateway, grpc=grpc, postgres=POSTGRES, redis=REDIS, kafka=KAFKA)

    @classmethod
    def free(cls, gateway: int | None = None, processes: Iterable[Process] = PROCESSES) -> "Ports":
        """Ports on which nothing listens at this moment; ``gateway`` where one port has to be a known one."""
        names = [process.name for process in processes if process.serves == "grpc"]
        first, postgres, redis, kafka, *grpc = free_ports(4 + len(names))
        return cls(
            gateway=first if gateway is None else gateway,
            grpc=dict(zip(names, grpc, strict=True)),
            postgres=postgres,
            redis=redis,
            kafka=kafka,
        )

    def by_name(self) -> dict[str, int]:
        """All of them, the gateway first."""
        return {
            "gateway": self.gateway,
            **self.grpc,
            "postgres": self.postgres,
            "redis": self.redis,
            "kafka": self.kafka,
        }

    def require_free(self) -> None:
        """``MeshError`` that names every port that is taken and what to do, so that nothing starts in vain."""
        taken = {name: port for name, port in self.by_name().items() if not is_free(port)}
        if taken:
            raise MeshError(conflict(taken))


def conflict(taken: Mapping[str, int]) -> str:
    """One line for ports in use: which, whose, and the way out."""
    listed = ", ".join(f"{port} ({name})" for name, port in taken.items())
    only_gateway = list(taken) == ["gateway"]
    way_out = f"--gateway-port {_next_free(taken['gateway'])}" if only_gateway else "--free-ports"
    subject = f"port {listed} is" if len(taken) == 1 else f"ports {listed} are"
    return f'{subject} in use: stop what listens there, or run make up ARGS="{way_out}"'


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1 at ``port`` now. Connections that linger do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """``count`` different ports that are free at this moment, and that no other process will choose."""
    block = _own_block()
    candidates = (port for port in random.sample(block, len(block)) if port not in _chosen and is_free(port))
    found = [*islice(candidates, count)]
    if len(found) < count:
        if not _chosen:
            raise MeshError(f"no {count} free ports between {block.start} and {block.stop}")
        # All were given out once; those on which nobody listens any more are free again.
        _chosen.clear()
        return free_ports(count)
    _chosen.update(found)
    return found


@cache
def _own_block() -> range:
    """A part of the range that is ours for the life of this process; all of it when every part is somebody's."""
    directory = Path(tempfile.gettempdir()) / f"devmesh-ports-{os.geteuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    for start in range(_FREE_RANGE.start, _FREE_RANGE.stop, _BLOCK):
        claim = os.open(directory / str(start), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(claim)
        else:
            return range(start, start + _BLOCK)  # the claim stays open, and ends with the process
    return _FREE_RANGE


def _next_free(port: int) -> int:
    return next((near for near in range(port + 10, port + 200, 10) if is_free(near)), port + 10)
