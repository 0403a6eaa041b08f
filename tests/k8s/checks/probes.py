"""Pods are watched: started when they are up, given calls when ready, restarted only for what a restart can mend."""

from collections.abc import Iterator
from typing import Any

from feedkit.server import LIVENESS

from tests.k8s.checks.objects import Object, Problem, Tree, Workload
from tests.k8s.checks.references import number

START_SECONDS = 30
"""What a container is given to start at least: a whole node may start at once."""
HANG_SECONDS = 30
"""For how long a container has not answered at least before it is restarted: one that is only slow must not be."""
OF_LIVENESS = {"grpc": {"port": 50051, "service": LIVENESS}, "http": {"path": "/healthz"}}
OF_READINESS = {"grpc": {"port": 50051}, "http": {"path": "/readyz"}}


def watched(tree: Tree) -> Iterator[Problem]:
    """Every container that stays has the three probes."""
    for workload in tree.workloads:
        for container in workload.containers:
            for what in _watched(workload, container):
                yield Problem(f"{workload.where} {container['name']}", what)


def _watched(workload: Workload, container: Object) -> Iterator[str]:
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container.get(kind)
        if probe is None:
            yield f"has no {kind}"
            continue
        for handler in ("grpc", "httpGet", "tcpSocket"):
            if handler in probe and number(probe[handler]["port"], workload) not in workload.listens:
                yield f"its {kind} asks the port {probe[handler]['port']}, which it has not"
    if "startupProbe" in container and _patience(container["startupProbe"]) < START_SECONDS:
        yield f"is given less than {START_SECONDS} s to start"
    if "livenessProbe" in container and _patience(container["livenessProbe"]) < HANG_SECONDS:
        yield f"is restarted after less than {HANG_SECONDS} s"


def _patience(probe: Object) -> int:
    """For how many seconds it may fail."""
    return probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3)


def without_dependencies(tree: Tree) -> Iterator[Problem]:
    """What can get a pod of ours killed asks nothing but the process: a store that is away must not restart all."""
    for workload in tree.workloads:
        if not workload.is_ours:
            continue
        (container,) = workload.containers
        for kind, wanted in (
            ("startupProbe", OF_LIVENESS),
            ("livenessProbe", OF_LIVENESS),
            ("readinessProbe", OF_READINESS),
        ):
            if kind in container and _asks(container[kind]) not in wanted.values():
                yield Problem(workload.where, f"its {kind} asks {_asks(container[kind])}")


def _asks(probe: Object) -> dict[str, Any]:
    if "grpc" in probe:
        return {key: value for key, value in probe["grpc"].items() if value != ""}
    return {"path": probe.get("httpGet", {}).get("path")}


CHECKS = (watched, without_dependencies)
