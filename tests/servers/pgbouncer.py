"""PgBouncer in transaction mode before PostgreSQL. Debian's is so old that it keeps no prepared statements."""

import os
import shutil
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from pwd import getpwnam
from threading import Event

from devmesh.backends import START_SECONDS, STOP_SECONDS, Backend
from devmesh.backends.postgres import Postgres
from devmesh.child import Child
from devmesh.guard import Guard

from tests.servers import missing

POOL_SIZE = 20


class PgBouncer(Backend):
    """Gives whoever connects one of `pool_size` sessions of each database, for as long as a transaction takes."""

    name = "pooler"

    def __init__(
        self,
        postgres: Postgres,
        *,
        port: int | None = None,
        guard: Guard | None = None,
        log: Path | None = None,
        pool_size: int = POOL_SIZE,
    ) -> None:
        super().__init__(port=port, guard=guard, log=log)
        self._postgres = postgres
        self._pool_size = pool_size

    def dsn(self, database: str) -> str:
        """The address of one database, through it."""
        return f"postgresql://postgres@{self.address}/{database}"

    def settings_for(self, database: str | None) -> Mapping[str, str]:
        if database is None:
            return {}
        return {
            "FEED_POSTGRES_DSN": self.dsn(database),
            "FEED_POSTGRES_DIRECT_DSN": self._postgres.dsn(database),
            "FEED_POSTGRES_POOLER": "transaction",
        }

    def launch(self, cancelled: Event | None = None) -> None:
        if (binary := shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")) is None:
            raise missing("pgbouncer")
        nobody = getpwnam("nobody")
        self._child = Child(
            self.name,
            [binary, str(self._written_configuration())],
            guard=self.guard,
            log=self.log,
            environment=os.environ,
            port=self.port,
            # It refuses to run as root.
            account=(nobody.pw_uid, nobody.pw_gid) if os.geteuid() == 0 else None,
            cwd=Path("/"),
        )

    def wait_ready(self, seconds: float = START_SECONDS, cancelled: Event | None = None) -> None:
        self._running().wait_until(lambda: _listens(self.port), seconds, cancelled)

    def terminate(self) -> int | None:
        child, self._child = self._child, None
        # SIGTERM ends it at once and SIGINT when its clients have gone, which is for them to say.
        return None if child is None else child.end(signal.SIGTERM, STOP_SECONDS)

    def _written_configuration(self) -> Path:
        users = self.guard.scratch / "pgbouncer-users.txt"
        users.write_text('"postgres" ""\n')
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": users,
            "pool_mode": "transaction",
            "default_pool_size": self._pool_size,
            "max_client_conn": 1000,
            # A server that was away is asked again soon; by default after 15 s, with an error for everybody until then.
            "server_login_retry": 0.2,
            "log_connections": 0,
            "log_disconnections": 0,
        }
        file = self.guard.scratch / f"pgbouncer-{self.port}.ini"
        lines = [f"{name} = {value}" for name, value in settings.items()]
        databases = f"* = host=127.0.0.1 port={self._postgres.port}"
        file.write_text("\n".join(["[databases]", databases, "[pgbouncer]", *lines, ""]))
        return file


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
