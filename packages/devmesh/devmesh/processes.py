"""The processes of the mesh, declared. A new one is one more entry in ``PROCESSES``.

Each is started as ``python -m MODULE [ROLE]`` and knows its neighbours only by the environment: the same variables,
with the same names, that a cluster gives it.
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
    role: str | None = None
    """The role of its module that it runs, beside the one that serves the module's contract. It serves nothing but its
    health, so nobody is given its address."""
    database: str | None = None
    """The PostgreSQL database it works on, if it does on one. Processes of one module share theirs."""
    migrates: bool = False
    """Whether ``python -m MODULE migrate`` has to run before it starts."""
    knows_operators: bool = False
    """Whether it is told the token by which operators are known. Nobody else is."""


# Clients of the mesh know these ports; at 15061 and above there is nothing but health. All are below every ephemeral range,
# or a client's outgoing connection could hold one of them.
PROCESSES: tuple[Process, ...] = (
    Process("post", "post_service", "grpc", 15051, database="post", migrates=True),
    Process("graph", "graph_service", "grpc", 15052, database="graph", migrates=True, knows_operators=True),
    Process("post-relay", "post_service", "grpc", 15061, role="relay", database="post"),
    Process("graph-relay", "graph_service", "grpc", 15062, role="relay", database="graph"),
    Process("fanout", "fanout_service", "grpc", 15053),
    Process("timeline", "timeline_service", "grpc", 15054),
    Process("hydrate", "hydrate_service", "grpc", 15055),
    Process("gateway", "gateway", "http", 8080),
)
