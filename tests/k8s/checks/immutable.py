"""What the API server refuses to change, so that a tree can be applied over any earlier one."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.k8s.checks.objects import Object, Problem, Tree, at, where

STATEFUL_SETS_MAY_CHANGE = {
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
    "revisionHistoryLimit",
}


def immutable(thing: Object) -> Any:
    """The part of an object that stays as it is for as long as the object is there; None where all may change."""
    match thing["kind"]:
        case "Deployment" | "DaemonSet":
            return {"selector": at(thing, "spec.selector")}
        case "StatefulSet":
            return {key: value for key, value in thing["spec"].items() if key not in STATEFUL_SETS_MAY_CHANGE}
        case "Job":
            return {"selector": at(thing, "spec.selector"), "template": at(thing, "spec.template")}
        case "Service":
            return {"clusterIP": at(thing, "spec.clusterIP", "given by the cluster")}
        case "PersistentVolumeClaim":
            return {key: value for key, value in thing["spec"].items() if key != "resources"}
        case "PriorityClass":
            return {key: thing[key] for key in ("value", "preemptionPolicy") if key in thing}
        case "RoleBinding" | "ClusterRoleBinding":
            return {"roleRef": thing["roleRef"]}
        case _:
            return None


def differs_from(committed: Mapping[str, Any], tree: Tree) -> Iterator[Problem]:
    """What would be refused where an earlier tree, with these immutable parts, has been applied."""
    for thing in tree.objects:
        part = immutable(thing)
        if part is not None and where(thing) not in committed:
            yield Problem(where(thing), "is not in immutable.yaml yet")
        elif part is not None and part != committed[where(thing)]:
            yield Problem(where(thing), f"has changed for ever from {committed[where(thing)]} to {part}")
