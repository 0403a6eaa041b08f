"""Real servers in the places of the embedded ones: what `make test-real` runs the suite on. `install` gets them."""

from pathlib import Path

from devmesh.errors import MeshError

INSTALLED = Path(__file__).parents[2] / ".servers"
"""Where `install` puts what comes in no package of the system."""


def missing(what: str) -> MeshError:
    """The error of whoever finds that a server is not there."""
    return MeshError(f"{what} is not installed: run tests/servers/install")
