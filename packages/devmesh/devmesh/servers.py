"""Which servers stand behind a mesh: those from wheels, or others that a machine has.

The environment variable ``DEVMESH_SERVERS`` names others, as ``module:name`` of a ``Servers``; so one suite runs over each
of them as it is: ``DEVMESH_SERVERS=tests.servers.combinations:REAL pytest tests/mesh``.
"""

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from devmesh.backends import Backend
from devmesh.backends.kafka import Kafka
from devmesh.backends.postgres import Postgres
from devmesh.backends.valkey import Valkey
from devmesh.errors import MeshError
from devmesh.guard import Guard

VARIABLE = "DEVMESH_SERVERS"


class MakesBackend(Protocol):
    """Makes a server that will listen on ``port``, run under ``guard`` and write ``log``; it is not started yet."""

    def __call__(self, *, port: int, guard: Guard, log: Path) -> Backend: ...


class MakesPooler(Protocol):
    """Makes what stands between the services and a PostgreSQL, on a port that it chooses."""

    def __call__(self, postgres: Postgres, *, guard: Guard, log: Path) -> Backend: ...


@dataclass(frozen=True)
class Servers:
    """What makes the servers of a mesh. PostgreSQL is always the real one, from its wheel."""

    kafka: MakesBackend = Kafka
    redis: MakesBackend = Valkey
    pooler: MakesPooler | None = None
    durable: frozenset[str] = frozenset({"postgres"})
    """The names of those that may die at any moment and have lost nothing when they come back."""


def chosen() -> Servers:
    """The servers that the environment names; those from wheels where it names none."""
    name = os.environ.get(VARIABLE)
    if not name:
        return Servers()
    module, _, attribute = name.partition(":")
    try:
        servers = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise MeshError(f"{VARIABLE}={name} names no servers: {error}") from error
    if not isinstance(servers, Servers):
        raise MeshError(f"{VARIABLE}={name} is no devmesh.servers.Servers")
    return servers
