"""Redis 7 as Debian has it. It keeps nothing on disk."""

import shutil
from pathlib import Path

from devmesh.backends.valkey import Valkey

from tests.servers import missing


class Redis(Valkey):
    """A Redis server that is empty whenever it starts: started as Valkey is, which was once the same program."""

    def binary(self) -> Path:
        if (found := shutil.which("redis-server")) is None:
            raise missing("redis-server")
        return Path(found)
