"""Where the mesh is: the addresses that the commands talk to."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

STATE_FILE = Path(".devmesh/state.json")
OPERATOR_SETTING = "FEED_OPERATOR_TOKEN"


class TargetsError(Exception):
    """The addresses cannot be read; the message says why in one line."""


@dataclass(frozen=True)
class Targets:
    """The addresses of a mesh. Whatever is None or missing is not looked at."""

    gateway: str
    """Base URL."""
    grpc: Mapping[str, str]
    """Service name to gRPC target."""
    postgres: Mapping[str, str]
    """Service name to DSN."""
    redis: str | None = None
    """URL."""
    kafka: str | None = None
    """Bootstrap servers."""
    operator_token: str | None = field(default=None, repr=False)
    """What makes a caller an operator, as `graph` has it. The environment variable of its name wins over the file."""

    @classmethod
    def read(cls, path: Path) -> "Targets":
        """Read them from a file as `make up` writes it; one for any other mesh can be written by hand. The operators' token
        may be left to the environment.

        Raises TargetsError.
        """
        try:
            targets = TypeAdapter(cls).validate_json(path.read_bytes())
        except FileNotFoundError:
            raise TargetsError(
                f"{path} does not exist: is a mesh up? (`make up`, or name a file with --state)"
            ) from None
        except OSError as error:
            raise TargetsError(f"{path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise TargetsError(f"{path} is no state file: {where}{': ' if where else ''}{first['msg']}") from error
        token = os.environ.get(OPERATOR_SETTING)
        return replace(targets, operator_token=token) if token else targets
