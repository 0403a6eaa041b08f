"""The rendered tree, really run: every pod comes up as the tree says, is confined, and the mesh does what it is for."""

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from feedctl.settled import settled
from feedctl.verify import verify
from ledger import Ledger

from tests.k8s.cluster.ingress import Ingress
from tests.k8s.cluster.mesh import BACKENDS, REPLICAS, RunningMesh
from tests.k8s.cluster.pods import Pod
from tests.k8s.cluster.rendered import PODMAN, Manifest
from tests.k8s.rendering import K8S, objects, render

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

VOLUME_OF_A_CLAIM: Manifest = {"name": "data", "emptyDir": {}}
AUTHORS, POSTS = 3, 4
FANS = 32
"""So many follow an author that posts of theirs are pulled: the tree has 30."""


def without_what_podman_lacks(workload: Manifest) -> Manifest:
    """A workload of either tree, without that in which they may differ."""
    rest: Any = deepcopy({key: part for key, part in workload.items() if key != "kind"})
    rest["spec"].pop("serviceName", None)
    rest["spec"].pop("volumeClaimTemplates", None)
    pod = rest["spec"]["template"]["spec"]
    pod.pop("restartPolicy", None)
    pod["volumes"] = [volume for volume in pod.get("volumes", []) if volume != VOLUME_OF_A_CLAIM]
    for container in pod["containers"]:
        for part in ("ports", "startupProbe", "readinessProbe", "livenessProbe"):
            container.pop(part, None)
    return rest


def test_what_runs_is_the_default_tree() -> None:
    def comparable(directory: Path) -> dict[str, Manifest]:
        return {
            f"{found['kind'].replace('StatefulSet', 'Deployment')} {found['metadata']['name']}": (
                without_what_podman_lacks(found) if found["kind"] in ("Deployment", "StatefulSet") else found
            )
            for found in objects(render(directory))
        }

    assert comparable(PODMAN) == comparable(K8S)


def all_pods(mesh: RunningMesh) -> Sequence[Pod]:
    return [pod for deployment in mesh.deployments.values() for pod in deployment.running]


async def test_every_pod_of_the_tree_is_ready(running_mesh: RunningMesh) -> None:
    serving = {name: len(deployment.serving) for name, deployment in running_mesh.deployments.items()}
    assert serving == {name: 1 if name in BACKENDS else REPLICAS for name in running_mesh.tree.deployments}


async def test_settings_and_secrets_arrive(running_mesh: RunningMesh) -> None:
    [graph, *_] = running_mesh.deployments["graph"].running
    [settings] = [
        each for each in running_mesh.tree.config_maps if each["metadata"]["name"].startswith("feed-settings")
    ]
    environment = dict(line.split("=", 1) for line in (await graph.run("env")).splitlines())
    assert settings["data"].items() <= environment.items()
    assert environment["FEED_POSTGRES_DSN"].startswith("postgresql://graph:throw-away")
    [redis] = running_mesh.deployments["redis"].running
    [configured] = [each for each in running_mesh.tree.config_maps if "redis.conf" in each["data"]]
    assert await redis.run("cat", "/etc/redis/redis.conf") == configured["data"]["redis.conf"]


async def test_containers_can_do_nothing_but_their_work(running_mesh: RunningMesh) -> None:
    await asyncio.gather(*map(check_confined, all_pods(running_mesh)))


async def check_confined(pod: Pod) -> None:
    """No root, no capability, no way to get any, no system call beyond the usual, nothing to write to, so much memory."""
    status, written = (await pod.run("sh", "-c", "cat /proc/1/status; echo; touch /written 2>&1 || true")).split("\n\n")
    process = {name: value.split() for name, value in (line.split(":", 1) for line in status.splitlines())}
    assert process["Uid"][0] != "0", pod.name
    assert {process[name][0] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}, pod.name
    assert (process["NoNewPrivs"], process["Seccomp"]) == (["1"], ["2"]), pod.name
    assert "Read-only file system" in written, pod.name
    limit = (await pod.state())["HostConfig"]["Memory"]
    assert limit == bytes_of(pod.main["resources"]["limits"]["memory"]), pod.name


def bytes_of(quantity: str) -> int:
    return int(quantity[:-2]) * 2 ** {"Mi": 20, "Gi": 30}[quantity[-2:]]


async def test_the_main_job_is_done(running_mesh: RunningMesh, ingress: Ingress) -> None:
    async with running_mesh.explained():
        ledger = Ledger(ingress)
        [reader, liker, *fans] = await ledger.users("Reader", 2 + FANS)
        [pulled, *pushed] = await ledger.users("Author", AUTHORS)
        for fan in fans:
            await ledger.follow(fan, pulled)
        await ledger.follow(reader, pulled, *pushed)
        posts = await ledger.posts_in_turn([pulled, *pushed], POSTS)
        await settled(running_mesh.targets.grpc["fanout"])

        await ledger.check(reader, 1, 5, 50)
        await ledger.check(fans[0], 20)
        assert (await ingress.engage(liker, posts[0], "like"))["likes"] == 1
        assert (await ingress.disengage(liker, posts[0], "like"))["likes"] == 0

        ranked = await ingress.feed(reader, view="ranked", limit="50")
        assert {int(item["id"]) for item in ranked["items"]} == set(posts)

        await ledger.delete(posts[0])
        await ledger.unfollow(reader, pushed[0])
        await ledger.check(reader, 20)
        await settled(running_mesh.targets.grpc["fanout"])
        await ledger.check(reader, 20)


async def test_every_timeline_is_what_postgresql_says(running_mesh: RunningMesh) -> None:
    async with running_mesh.explained():
        verdicts = [verdict async for verdict in verify(running_mesh.targets, sample=12, limits=(7, 50), seed=1)]
    assert len(verdicts) == 24
    assert not [verdict for verdict in verdicts if verdict.faults]
