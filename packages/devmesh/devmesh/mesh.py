"""The whole mesh as one object: backends, migrations and every process, started, watched and stopped together."""

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Event, RLock, Thread, current_thread
from typing import Self

from devmesh import probe
from devmesh.addresses import Addresses
from devmesh.backends import START_SECONDS, Backend
from devmesh.backends.postgres import DATABASES, Postgres
from devmesh.child import Child, ending
from devmesh.errors import MeshCancelled, MeshError
from devmesh.guard import Guard
from devmesh.ports import Ports
from devmesh.processes import PROCESSES, Process
from devmesh.servers import Servers, chosen
from devmesh.supervision import RestartPolicy

READY_SECONDS = 60.0
MIGRATE_SECONDS = 60.0
# Longer than a service needs to drain what it is doing.
STOP_SECONDS = 20.0

OPERATOR_SETTING = "FEED_OPERATOR_TOKEN"
_TOKEN_BYTES = 32

_POLL_SECONDS = 0.03
_WATCH_SECONDS = 0.1


def _say_nothing(_line: str) -> None:
    return None


def _tell_nobody() -> None:
    return None


class Mesh:
    """A mesh on this machine, usable as a context manager: ready on entry, nothing of it left on exit.

    ``settings``: environment of every process, winning over what the mesh itself sets. ``data``: where PostgreSQL keeps
    its data over restarts; temporary without it. ``ports``: free ones without it. ``directory``: its ``logs``
    subdirectory gets one file per process. ``supervise``: start a process that dies again, and end in ``failure``
    when that is of no use or a backend died.

    ``processes``: what to run. ``servers``: on which servers; those that the environment names without it, which is
    usually none but the embedded ones. ``report`` is given a line for a person at each step; ``changed`` is called when a
    supervised restart gave a process a new pid. ``cancelled``: set it from anywhere (a signal handler) and ``start``
    raises ``MeshCancelled`` within a moment, with nothing left running.

    Its methods block and may be called from any thread, with an event loop running or not. Unknown process names and
    whatever fails to start or stop raise ``MeshError``, whose text says why in one line. The backends ``postgres``,
    ``redis`` and ``kafka`` (and ``pooler``, where there is one) are killed, terminated and restarted by their names like
    any process.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        data: Path | None = None,
        ports: Ports | None = None,
        *,
        directory: Path,
        supervise: bool = False,
        processes: Iterable[Process] = PROCESSES,
        servers: Servers | None = None,
        report: Callable[[str], None] = _say_nothing,
        changed: Callable[[], None] = _tell_nobody,
        cancelled: Event | None = None,
    ) -> None:
        self._processes = {process.name: process for process in processes}
        self._settings = dict(settings or {})
        self._own_settings: dict[str, dict[str, str]] = {}
        self._operator_token = self._settings.get(OPERATOR_SETTING) or secrets.token_urlsafe(_TOKEN_BYTES)
        self._data = data
        self._servers = servers or chosen()
        self._ports = ports or Ports.free(processes=self._processes.values())
        self._logs = directory.resolve() / "logs"
        self._supervise = supervise
        self._report = report
        self._changed = changed
        self._cancelled = cancelled or Event()

        self._lock = RLock()
        self._guard: Guard | None = None
        self._backends: dict[str, Backend] = {}
        self._children: dict[str, Child] = {}
        self._ready: set[str] = set()
        self._policy = RestartPolicy()
        self._stopping = Event()
        self._watcher: Thread | None = None
        self.failure: MeshError | None = None
        """Why a supervised mesh can no longer run; it then has to be stopped."""

    # --- the whole -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and return when all is ready. On any failure nothing is left running."""
        self._ports.require_free()
        self._clear_logs()
        self._stopping.clear()
        self._guard = Guard()
        try:
            self._start_backends(self._guard)
            self._migrate()
            for name in self._processes:
                self._spawn(name)
            self._wait_ready(*self._processes)
        except BaseException:
            self.stop()
            raise
        if self._supervise:
            self._watcher = Thread(target=self._watch, name="devmesh-supervisor", daemon=True)
            self._watcher.start()

    def stop(self) -> None:
        """Stop everything, in the reverse order of its start. May be called at any time, and again."""
        self._stopping.set()
        if self._watcher is not None and self._watcher is not current_thread():
            self._watcher.join()
            self._watcher = None
        with self._lock:
            try:
                alive = self.addresses.pids
                for name in reversed([*self._backends, *self._processes]):
                    if self._stop_one(name) == -signal.SIGKILL and name in alive:
                        self._report(f"{name} did not stop when asked and was killed")
            finally:
                if self._guard is not None:
                    self._guard.close()
                self._guard = None
                self._backends.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def addresses(self) -> Addresses:
        """Where everything is, and the pids of what runs now."""
        ports = self._ports
        with self._lock:
            backends = {name: backend.child for name, backend in self._backends.items()}
            children = {**self._children, **backends}
            pids = {name: child.pid for name, child in children.items() if child and child.exit_code is None}
        return Addresses(
            gateway=f"http://127.0.0.1:{ports.gateway}",
            grpc={name: f"127.0.0.1:{port}" for name, port in ports.grpc.items()},
            postgres={name: f"postgresql://postgres@127.0.0.1:{ports.postgres}/{name}" for name in DATABASES},
            redis=f"redis://127.0.0.1:{ports.redis}/0",
            kafka=f"127.0.0.1:{ports.kafka}",
            pids={"mesh": os.getpid(), **pids},
            operator_token=self._operator_token,
        )

    # --- one process -----------------------------------------------------------------------------------------------

    def kill(self, process: str) -> None:
        """End a process by SIGKILL and reap it. It stays down, supervised or not, until ``restart``."""
        with self._lock:
            if (backend := self._backends.get(process)) is not None:
                backend.kill()
            else:
                self._running(process).kill()
                del self._children[process]
            self._ready.discard(process)

    def terminate(self, process: str) -> int:
        """End a process by SIGTERM (PostgreSQL: its fast shutdown) and return its exit code. It stays down.

        ``MeshError`` when it had to be killed, because it had not ended after 20 s.
        """
        with self._lock:
            exit_code = self._stop_one(process)
        if exit_code is None:
            raise MeshError(f"{process} is not running")
        if exit_code == -signal.SIGKILL:
            raise MeshError(f"{process} did not end within {STOP_SECONDS:g} s of SIGTERM and was killed")
        return exit_code

    def restart(self, process: str, settings: Mapping[str, str] | None = None) -> None:
        """Start a process that is down at its old address, and wait until it is ready.

        ``settings`` are its own from now on, over those of the mesh; backends have none. PostgreSQL finds its data
        again; Redis and the embedded Kafka start empty.
        """
        with self._lock:
            if process in self.addresses.pids:
                raise MeshError(f"{process} is still running")
            if (backend := self._backends.get(process)) is not None:
                backend.launch(self._cancelled)
                backend.wait_ready(START_SECONDS, self._cancelled)
            else:
                self._own_settings.setdefault(process, {}).update(settings or {})
                self._spawn(process)
        self.wait_ready(process)

    def wait_ready(self, process: str) -> None:
        """Return when a process says that it is ready; ``MeshError`` when it ends first or needs more than 60 s."""
        if process not in self._backends:
            self._running(process)
            self._wait_ready(process)

    def pids_of(self, process: str) -> list[int]:
        """The pids of all that stands behind one name and runs: several where a backend is several servers."""
        with self._lock:
            backend = self._backends.get(process)
            children = [self._running(process)] if backend is None else backend.children
            return [child.pid for child in children if child.exit_code is None]

    def log(self, process: str) -> str:
        """Everything a process has said since the mesh started, its migrations and earlier lives included."""
        file = self._log_file(process)
        return file.read_text(errors="replace") if file.exists() else ""

    # --- starting --------------------------------------------------------------------------------------------------

    def _start_backends(self, guard: Guard) -> None:
        for backend in self._made_backends(guard):
            self._backends[backend.name] = backend
            backend.launch(self._cancelled)
        for backend in self._backends.values():
            backend.wait_ready(START_SECONDS, self._cancelled)
            self._report(f"{backend.name} is ready at {backend.address}")

    def _made_backends(self, guard: Guard) -> list[Backend]:
        ports, servers = self._ports, self._servers
        kafka = servers.kafka(port=ports.kafka, guard=guard, log=self._log_file("kafka"))
        redis = servers.redis(port=ports.redis, guard=guard, log=self._log_file("redis"))
        postgres = Postgres(port=ports.postgres, guard=guard, log=self._log_file("postgres"), data=self._data)
        # PostgreSQL last, because its launch takes longest: the others come up meanwhile.
        backends = [kafka, redis, postgres]
        if servers.pooler is not None:
            backends.append(servers.pooler(postgres, guard=guard, log=self._log_file("pooler")))
        return backends

    def _migrate(self) -> None:
        migrating = [process for process in self._processes.values() if process.migrates]
        running = [self._run(process, "migrate", port=None) for process in migrating]
        for child in running:
            if child.wait(MIGRATE_SECONDS, self._cancelled) != 0:
                raise child.death("while migrating its database")
        if running:
            self._report(f"migrated {', '.join(child.name for child in running)}")

    def _spawn(self, name: str) -> None:
        process = self._declared(name)
        self._children[name] = self._run(process, process.role, port=self._port(process))

    def _run(self, process: Process, role: str | None, *, port: int | None) -> Child:
        if self._guard is None:
            raise MeshError("the mesh is not running")
        return Child(
            process.name,
            # -P: a directory of the same name where the mesh was started must not be taken for the module.
            [sys.executable, "-P", "-m", process.module, *([] if role is None else [role])],
            guard=self._guard,
            log=self._log_file(process.name),
            environment=self._environment(process),
            port=port,
        )

    def _wait_ready(self, *names: str) -> None:
        """Wait for all at once, so that the end of any of them is noticed at once."""
        deadline = time.monotonic() + READY_SECONDS
        waiting = list(names)
        while waiting:
            if self._cancelled.is_set():
                raise MeshCancelled
            for name in waiting.copy():
                child = self._running(name)
                if child.exit_code is not None:
                    raise child.death("while starting")
                if self._is_ready(name):
                    waiting.remove(name)
                    self._report(f"{name} is ready at 127.0.0.1:{self._port(self._declared(name))}")
            if time.monotonic() > deadline:
                late = ", ".join(waiting)
                raise MeshError(f"{late} not ready after {READY_SECONDS:g} s (logs: {self._logs})")
            time.sleep(_POLL_SECONDS)

    def _is_ready(self, name: str) -> bool:
        process = self._declared(name)
        if probe.ready(process.serves, self._port(process)):
            self._ready.add(name)
            return True
        return False

    def _port(self, process: Process) -> int:
        return self._ports.gateway if process.serves == "http" else self._ports.grpc[process.name]

    def _environment(self, process: Process) -> dict[str, str]:
        """Addresses of the mesh over the rest of our own environment.

        A FEED_* variable of the caller's shell is *not* passed on, nor is libpq's PG*: what a mesh does depends only
        on what it was told. Settings come through ``settings``. OTEL_* and everything else are the caller's.
        """
        addresses = self.addresses
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FEED_", "PG"))}
        listen = f"127.0.0.1:{self._port(process)}"
        own = {"FEED_HTTP_LISTEN" if process.serves == "http" else "FEED_GRPC_LISTEN": listen}
        for backend in self._backends.values():
            own |= backend.settings_for(process.database)
        if process.knows_operators:
            own[OPERATOR_SETTING] = addresses.operator_token
        return {
            **inherited,
            "PYTHONUNBUFFERED": "1",
            # The C core of gRPC writes plain lines between the JSON ones, of things that our own logs tell.
            "GRPC_VERBOSITY": "NONE",
            # A proxy of the caller is for the world outside, not for calls between neighbours.
            "no_grpc_proxy": "127.0.0.1,localhost",
            "FEED_ENV": "development",
            "FEED_AUTH_MODE": "dev",
            # No balancer has to learn first that a process is going, so every stop would wait in vain.
            "FEED_DRAIN_SECONDS": "0",
            **self._targets(addresses.grpc),
            **own,
            **self._settings,
            **self._own_settings.get(process.name, {}),
        }

    def _targets(self, grpc: Mapping[str, str]) -> dict[str, str]:
        services = [name for name in grpc if self._processes[name].role is None]
        return {f"FEED_{name.upper()}_TARGET": grpc[name] for name in services}

    # --- watching --------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            while not self._stopping.wait(_WATCH_SECONDS):
                with self._lock:
                    self._check_backends()
                    for name in list(self._children):
                        self._check_process(name)
        except MeshError as error:
            self.failure = error
        except Exception as error:
            # Nobody would watch any more, and nobody would know.
            self.failure = MeshError(f"the supervisor itself failed: {error!r}")
            raise

    def _check_backends(self) -> None:
        for backend in self._backends.values():
            if backend.child is not None and backend.child.exit_code is not None:
                raise backend.child.death("while the mesh was running")

    def _check_process(self, name: str) -> None:
        child = self._children[name]
        if (exit_code := child.exit_code) is None:
            if name not in self._ready and self._is_ready(name):
                self._report(f"{name} is ready again (pid {child.pid})")
            return
        lived = time.monotonic() - child.started
        if not self._policy.restart(name, lived=lived, was_ready=name in self._ready, exit_code=exit_code):
            raise child.death("again and again, so it is not started any more")
        self._ready.discard(name)
        self._spawn(name)
        self._report(f"{name} {ending(exit_code)}; started again as pid {self._children[name].pid}")
        self._changed()

    # --- stopping --------------------------------------------------------------------------------------------------

    def _stop_one(self, name: str) -> int | None:
        self._ready.discard(name)
        if (backend := self._backends.get(name)) is not None:
            return backend.terminate()
        child = self._children.pop(name, None)
        return None if child is None else child.end(signal.SIGTERM, STOP_SECONDS)

    # --- names -----------------------------------------------------------------------------------------------------

    def _declared(self, name: str) -> Process:
        try:
            return self._processes[name]
        except KeyError:
            known = ", ".join([*self._processes, *self._backends])
            raise MeshError(f"no process {name!r} in this mesh; there are {known}") from None

    def _running(self, name: str) -> Child:
        self._declared(name)
        try:
            return self._children[name]
        except KeyError:
            raise MeshError(f"{name} is not running") from None

    def _log_file(self, process: str) -> Path:
        return self._logs / f"{process}.log"

    def _clear_logs(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        for old in self._logs.glob("*.log"):
            old.unlink()
