"""The rendered tree, running in containers, for all tests here."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Generator

import pytest

from tests.k8s.cluster.ingress import Ingress
from tests.k8s.cluster.mesh import RunningMesh
from tests.k8s.cluster.namespace import MissingError, namespace, require
from tests.k8s.cluster.rendered import PODMAN, tree
from tests.k8s.rendering import ROOT, objects, render


# For these tests alone: others must not be in the network of the pods.
@pytest.fixture(scope="package")
def running_mesh() -> Generator[RunningMesh]:
    """Every pod of the tree, all ready, from images of what is checked out. Meanwhile sockets of the test run are in the
    network of the pods."""
    try:
        require()
        _build_images()
        with namespace() as inside, inside.entered():
            mesh = RunningMesh(inside, tree(objects(render(PODMAN))))
            asyncio.run(_start(mesh))
            yield mesh
    except MissingError as missing:
        raise pytest.fail.Exception(str(missing), pytrace=False) from None


def _build_images() -> None:
    # A matter of seconds where nothing has changed.
    build = ["make", "images", "BASES=local"]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"{' '.join(build)}: {done.stderr}")


async def _start(mesh: RunningMesh) -> None:
    async with mesh.explained():
        await mesh.start()


@pytest.fixture
async def ingress(running_mesh: RunningMesh) -> AsyncGenerator[Ingress]:
    """The public API, through both gateways."""
    async with Ingress(lambda: running_mesh.gateways) as ingress:
        yield ingress
