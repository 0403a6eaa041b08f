"""One real mesh for all tests that need one: each makes users of its own, so none sees another's."""

from collections.abc import AsyncGenerator, Generator

import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """Every backend and every process, on free ports. Whoever stops one of them starts it again."""
    with Mesh(directory=tmp_path_factory.mktemp("mesh")) as mesh:
        yield mesh


@pytest.fixture
async def api(mesh: Mesh) -> AsyncGenerator[FeedApi]:
    """The gateway of the shared mesh."""
    async with FeedApi(mesh.addresses.gateway) as api:
        yield api
