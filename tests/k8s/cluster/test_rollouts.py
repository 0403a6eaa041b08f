"""While replicas are killed and Deployments replaced no request fails, and nothing that was acknowledged is lost.

The retry budget, which is what an ingress controller does: one repetition of a request whose connection ended without an
answer (`ingress.py`). An answer is final: a 5xx fails the test. Clients do nothing.
"""

import json

import pytest
from feedctl.settled import settled
from walks import each

from tests.k8s.cluster.deployment import Ended
from tests.k8s.cluster.ingress import Ingress
from tests.k8s.cluster.load import Load
from tests.k8s.cluster.mesh import RunningMesh

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture
async def load(running_mesh: RunningMesh, ingress: Ingress) -> Load:
    """Readers and writers."""
    load = Load(ingress)
    async with running_mesh.explained():
        await load.prepare()
    return load


async def test_a_killed_replica_of_each_service_costs_nobody_anything(running_mesh: RunningMesh, load: Load) -> None:
    async with running_mesh.explained():
        async with load.running():
            for deployment in running_mesh.ours:
                await deployment.crash(deployment.running[0])
        await check_that_nothing_is_missing(running_mesh, load)
    # What was under way at the gateway that was killed, and what still went to it before it was known to be dead.
    killed = running_mesh.deployments["gateway"].running[0].address
    assert load.ingress.retries
    assert [retry for retry in load.ingress.retries if killed not in retry.request] == []


async def test_a_rollout_of_everything_costs_nobody_anything(running_mesh: RunningMesh, load: Load) -> None:
    async with running_mesh.explained():
        ended: list[Ended] = []
        async with load.running():
            for deployment in running_mesh.ours:
                ended += await deployment.replace()
        await check_that_nothing_is_missing(running_mesh, load)
    assert load.ingress.retries == []
    for pod in ended:
        check_that_it_drained(pod)


async def check_that_nothing_is_missing(mesh: RunningMesh, load: Load) -> None:
    """No request failed, and every timeline is what was acknowledged, with nothing lost, twice or extra."""
    ingress = load.ingress
    print(
        f"{ingress.requests} requests, the slowest {ingress.slowest_seconds:.2f} s, {len(ingress.retries)} sent again"
    )
    assert load.failures == []
    await settled(mesh.targets.grpc["fanout"])
    await each([*load.readers, *load.authors], lambda viewer: load.ledger.check(viewer, 50))


def check_that_it_drained(pod: Ended) -> None:
    """It went on serving for a while, said so, and ended in order."""
    messages = [json.loads(line)["message"] for line in pod.log.splitlines() if line.startswith("{")]
    assert pod.exit_code == 0, f"{pod.pod}\n{pod.log}"
    assert "draining" in messages, f"{pod.pod}\n{pod.log}"
    assert messages[-1] == "stopping", f"{pod.pod}\n{pod.log}"
