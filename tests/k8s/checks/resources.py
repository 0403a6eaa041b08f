"""Quantities, what containers ask for, and whether all of it fits."""

import re
from collections.abc import Iterator
from decimal import Decimal

from tests.k8s.checks.objects import Object, Problem, Tree, Workload, at, where

_QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[munkMGTPE]|[eE][+-]?\d+)?$")
_BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {
    suffix: Decimal(1000) ** power for suffix, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
}


def quantity(text: object) -> Decimal:
    """The number that a quantity of Kubernetes stands for, such as 0.1 for `100m`. Raises ValueError where it is none."""
    match = _QUANTITY.match(str(text))
    if match is None:
        raise ValueError(f"{text} is no quantity")
    number, suffix = Decimal(match[1]), match[2]
    if suffix is None:
        return number
    if suffix in _BINARY or suffix in _DECIMAL:
        return number * (_BINARY | _DECIMAL)[suffix]
    return number * Decimal(10) ** int(suffix[1:])


def asked_for(tree: Tree) -> Iterator[Problem]:
    """Every container requests CPU and memory, and is limited in memory; limits are not below requests."""
    for workload in tree.workloads:
        for container in workload.all_containers:
            for what in _container(container):
                yield Problem(f"{workload.where} {container['name']}", what)
        for volume in workload.pod.get("volumes", []):
            yield from _bounded(workload, volume)
        for template in at(workload.object, "spec.volumeClaimTemplates", []):
            if _parsed(at(template, "spec.resources.requests.storage")) is None:
                yield Problem(workload.where, f"asks for no storage for {template['metadata']['name']}")


def _container(container: Object) -> Iterator[str]:
    requests, limits = at(container, "resources.requests", {}), at(container, "resources.limits", {})
    for kind, asked in (("request", requests), ("limit", limits)):
        for resource, amount in asked.items():
            if _parsed(amount) is None:
                yield f"its {kind} of {resource}, {amount}, is no quantity"
    for resource in sorted({"cpu", "memory"} - {*requests}):
        yield f"requests no {resource}"
    if "memory" not in limits:
        yield "has no limit of memory"
    for resource in sorted({*requests} & {*limits}):
        least, most = _parsed(requests[resource]), _parsed(limits[resource])
        if least is not None and most is not None and least > most:
            yield f"requests more {resource} than its limit"


def _bounded(workload: Workload, volume: Object) -> Iterator[Problem]:
    if "emptyDir" in volume and _parsed(at(volume, "emptyDir.sizeLimit")) is None:
        yield Problem(workload.where, f"the volume {volume['name']} may fill the node's disk")


def _parsed(amount: object) -> Decimal | None:
    try:
        return quantity(amount)
    except ValueError:
        return None


def scaling(tree: Tree) -> Iterator[Problem]:
    """Quantities of autoscalers parse."""
    for scaler in tree.of("HorizontalPodAutoscaler"):
        for metric in at(scaler, "spec.metrics", []):
            value = at(metric, "resource.target.averageValue")
            if value is not None and _parsed(value) is None:
                yield Problem(where(scaler), f"{value} is no quantity")


def requested(tree: Tree) -> dict[str, Decimal]:
    """What the whole tree requests with its fewest pods, in CPUs and bytes."""
    fewest = {
        at(scaler, "spec.scaleTargetRef.name"): at(scaler, "spec.minReplicas", 1)
        for scaler in tree.of("HorizontalPodAutoscaler")
    } | {
        at(scaler, "spec.scaleTargetRef.name"): at(scaler, "spec.minReplicaCount", 0)
        for scaler in tree.of("ScaledObject")
    }
    total = {"cpu": Decimal(0), "memory": Decimal(0)}
    for workload in tree.workloads:
        pods = fewest.get(workload.name, at(workload.object, "spec.replicas", 1))
        for resource in total:
            total[resource] += pods * _of_pod(workload, resource)
    return total


def _of_pod(workload: Workload, resource: str) -> Decimal:
    """What the scheduler takes for it: its containers together, or its greediest init container, whichever is more."""

    def of(container: Object) -> Decimal:
        return quantity(at(container, f"resources.requests.{resource}", 0))

    together = sum((of(container) for container in workload.containers), Decimal(0))
    return max([together, *(of(container) for container in workload.pod.get("initContainers", []))])


CHECKS = (asked_for, scaling)
