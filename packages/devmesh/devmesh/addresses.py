"""Where everything of a running mesh is: what ``.devmesh/state.json`` holds and what tests are given."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Addresses:
    """All on 127.0.0.1. They stay the same over a restart of a process; its pid does not."""

    gateway: str
    """Base URL without a final slash: ``http://127.0.0.1:8080``."""
    grpc: Mapping[str, str]
    """Process → ``host:port``: the services by their names, and their relays, which serve nothing but their health."""
    postgres: Mapping[str, str]
    """Service → DSN of its own database, past any pooler."""
    redis: str
    """``redis://host:port/0``."""
    kafka: str
    """Bootstrap server, ``host:port``."""
    pids: Mapping[str, int]
    """Process → pid: the services and their relays, ``gateway``, ``postgres``, ``redis``, ``kafka``, ``pooler`` where there
    is one, and ``mesh``, which started them all. A process that is down at the moment is absent."""
    operator_token: str = field(repr=False)
    """What makes a caller an operator: the bearer token of `feed.graph.v1.AccountService`. The same for the mesh's life."""

    def to_json(self) -> str:
        """One JSON object with the fields of this class."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Addresses":
        """The inverse of ``to_json``; ``ValueError`` for anything else."""
        fields: Any = json.loads(text)
        try:
            return cls(**fields)
        except TypeError as error:
            raise ValueError(f"not the addresses of a mesh: {error}") from error
