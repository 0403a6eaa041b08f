"""The processes of the mesh, declared. A new one is one more entry in ``PROCESSES``.

Each is started as ``python -m MODULE`` and knows its neighbours only by the environment: the same variables, with the
same names, that a cluster gives it.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Process:
    """How one process of the mesh is started and known to be ready."""

    name: str
    module: str
    serves: Literal["grpc", "http"]
    """``grpc``: ready when its health service says SERVING. ``http``: when ``/readyz`` answers 200."""
    port: int
    """The fixed port that people know; tests get free ones."""
    database: str | None = None
    """The PostgreSQL database it owns, if it owns one."""
    migrates: bool = False
    """Whether ``python -m MODULE migrate`` has to run before it starts."""


# Clients of the mesh know these ports; 50053 is fanout's.
PROCESSES: tuple[Process, ...] = (
    Process("post", "post_service", "grpc", 50051, database="post", migrates=True),
    Process("graph", "graph_service", "grpc", 50052, database="graph", migrates=True),
    Process("timeline", "timeline_service", "grpc", 50054),
    Process("hydrate", "hydrate_service", "grpc", 50055),
    Process("gateway", "gateway", "http", 8080),
)
