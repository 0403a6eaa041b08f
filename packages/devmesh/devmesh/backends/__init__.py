"""The three servers that the mesh stands on, started from wheels: no Docker, no packages of the system, root or not.
`devmesh.servers` puts others in their places.

Each is usable alone, as tests of a store do::

    with Postgres(databases=["post"]) as postgres:
        pool = await asyncpg.create_pool(postgres.dsn("post"))
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import ClassVar, Self

from devmesh.child import Child
from devmesh.errors import MeshError
from devmesh.guard import Guard
from devmesh.ports import free_ports

START_SECONDS = 30.0
STOP_SECONDS = 20.0


class Backend(ABC):
    """A server with a fixed address, which may be stopped, killed and started again.

    ``port``: a free one when not given. ``guard``: whose scratch directory it uses and under which it runs; one of its
    own when not given, closed with ``stop``. ``log``: a file in the scratch directory when not given.
    """

    name: ClassVar[str]

    def __init__(self, *, port: int | None = None, guard: Guard | None = None, log: Path | None = None) -> None:
        self.port = free_ports(1)[0] if port is None else port
        self._own_guard = guard is None
        self._given_guard = guard
        self._given_log = log
        self._child: Child | None = None

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def child(self) -> Child | None:
        """Its process, from ``launch`` until ``stop`` or ``kill``; it may have died meanwhile."""
        return self._child

    @property
    def children(self) -> list[Child]:
        """All its processes that we started."""
        return [] if self._child is None else [self._child]

    @property
    def guard(self) -> Guard:
        if self._given_guard is None:
            self._given_guard = Guard()
        return self._given_guard

    @property
    def log(self) -> Path:
        return self._given_log or self.guard.scratch / f"{self.name}.log"

    def start(self) -> None:
        """Launch it and wait until it answers. ``MeshError`` when it does not; then nothing of it runs."""
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it in order. A backend with a guard of its own leaves nothing behind and cannot be started again."""
        self.terminate()
        if self._own_guard and self._given_guard is not None:
            self._given_guard.close()

    @abstractmethod
    def settings_for(self, database: str | None) -> Mapping[str, str]:
        """The environment by which a process finds it. ``database``: the one that the process works on, if on any."""

    @abstractmethod
    def launch(self, cancelled: Event | None = None) -> None:
        """Start its process and return at once."""

    @abstractmethod
    def wait_ready(self, seconds: float = START_SECONDS, cancelled: Event | None = None) -> None:
        """Wait until it answers; ``MeshError`` when it ended or needs longer."""

    @abstractmethod
    def terminate(self) -> int | None:
        """Stop its process in order; its exit code, ``None`` when it did not run."""

    def kill(self) -> None:
        """End its process by SIGKILL and reap it."""
        self._running().kill()
        self._child = None

    def _running(self) -> Child:
        if self._child is None:
            raise MeshError(f"{self.name} is not running")
        return self._child

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
