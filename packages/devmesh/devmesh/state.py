"""One mesh per directory, and what others may know of it.

The right to run is an advisory lock on ``lock``, held by the mesh's process for its life and given back by the system
however it ends. So a pid that is found here is that of a running mesh, never of an unrelated process that was given
the same number since, and a state file without a held lock is known to be stale.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from devmesh.addresses import Addresses
from devmesh.errors import MeshError

DIRECTORY = Path(".devmesh")

# How long to wait for somebody who only looks whether the lock is held, or who holds it and is about to say who it is.
_GLANCE_SECONDS = 0.5


class State:
    """The files ``lock`` and ``state.json`` of a directory."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self.directory = directory.resolve()
        self.file = self.directory / "state.json"
        self._lock = self.directory / "lock"

    @contextmanager
    def claim(self) -> Generator[None]:
        """Be the one mesh of this directory; ``MeshError`` when there is one. Clears away what a dead one left."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as lock:
            if not _acquired(lock, fcntl.LOCK_EX, _GLANCE_SECONDS):
                raise MeshError(f"a mesh already runs here (pid {_pid(lock)}): make down stops it")
            self.clear()
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            try:
                yield
            finally:
                self.clear()
                lock.truncate(0)

    def owner(self) -> int | None:
        """The pid of the mesh that runs here, also while it starts and stops; ``None`` when none runs."""
        if not self._lock.exists():
            return None
        with self._lock.open("r") as lock:
            return None if _acquired(lock, fcntl.LOCK_SH, 0) else _pid(lock)

    def write(self, addresses: Addresses) -> None:
        """Publish the addresses, in one step: a reader meets the old file or the new one, whole.

        They name the operators' token, so nobody but the mesh's own user may read them, not even for a moment.
        """
        draft = self.file.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(addresses.to_json())
        draft.replace(self.file)

    def read(self) -> Addresses | None:
        """The addresses of the mesh that runs here; ``None`` when none is ready."""
        if self.owner() is None or not self.file.exists():
            return None
        return Addresses.from_json(self.file.read_text())

    def clear(self) -> None:
        """Remove the state file."""
        self.file.unlink(missing_ok=True)


def _acquired(lock: TextIO, kind: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        else:
            return True


def _pid(lock: TextIO) -> int:
    """Whom a held lock belongs to, as its holder wrote into it."""
    deadline = time.monotonic() + _GLANCE_SECONDS
    while time.monotonic() < deadline:
        lock.seek(0)
        if (text := lock.read().strip()).isdigit():
            return int(text)
        time.sleep(0.01)
    raise MeshError(f"{lock.name} is held by a process that does not say which it is")
