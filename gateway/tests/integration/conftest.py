"""One real mesh behind the gateway for all tests here; each makes people of its own."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

import httpx
import pytest
from devmesh.mesh import Mesh

NewUser = Callable[[str], Awaitable[str]]


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """Every backend and every process, on free ports."""
    with Mesh(directory=tmp_path_factory.mktemp("gateway-mesh")) as mesh:
        yield mesh


@pytest.fixture
async def client(mesh: Mesh) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the gateway."""
    async with httpx.AsyncClient(base_url=mesh.addresses.gateway, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
def new_user(client: httpx.AsyncClient) -> NewUser:
    """Makes a user of a name; gives the id."""

    async def make(name: str) -> str:
        answer = await client.post("/api/users", json={"name": name})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    return make


@pytest.fixture
async def ada(new_user: NewUser) -> str:
    """Somebody."""
    return await new_user("Ada")


@pytest.fixture
async def bob(new_user: NewUser) -> str:
    """Somebody else."""
    return await new_user("Bob")
