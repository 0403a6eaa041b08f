"""One real mesh for all tests that need one: each makes users of its own, so none sees another's."""

from collections.abc import AsyncGenerator, Generator

import limits
import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from stored_keys import StoredKeys


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """Every backend and every process, on free ports, with small limits. Whoever stops one of them starts it again."""
    with Mesh(limits.SETTINGS, directory=tmp_path_factory.mktemp("mesh")) as mesh:
        yield mesh


@pytest.fixture
async def api(mesh: Mesh) -> AsyncGenerator[FeedApi]:
    """The gateway of the shared mesh."""
    async with FeedApi(mesh.addresses.gateway) as api:
        yield api


@pytest.fixture
async def stored(mesh: Mesh) -> AsyncGenerator[StoredKeys]:
    """The Redis of the shared mesh."""
    async with StoredKeys(mesh.addresses.redis) as stored:
        yield stored
