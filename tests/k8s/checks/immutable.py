"""What the API server refuses to change, so that a tree can be applied over any earlier one."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.k8s.checks.objects import Object, Problem, Tree, at, where

# Of the spec; whatever else stands there may change.
FIXED = {
    "Deployment": {"selector"},
    "DaemonSet": {"selector"},
    "Job": {"selector", "template"},
    "Service": {"clusterIP"},
}
# Of the spec; whatever else stands there is fixed.
CHANGEABLE = {
    "StatefulSet": {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "revisionHistoryLimit",
    },
    "PersistentVolumeClaim": {"resources"},
}
# Of the object itself.
TOP_LEVEL = {
    "PriorityClass": {"value", "preemptionPolicy"},
    "RoleBinding": {"roleRef"},
    "ClusterRoleBinding": {"roleRef"},
}


def immutable(thing: Object) -> Object | None:
    """The part of an object that stays as it is for as long as the object is there; None where all may change."""
    kind, spec = thing["kind"], at(thing, "spec", {})
    if kind in FIXED:
        return {key: spec[key] for key in sorted(FIXED[kind]) if key in spec}
    if kind in CHANGEABLE:
        return {key: value for key, value in spec.items() if key not in CHANGEABLE[kind]}
    if kind in TOP_LEVEL:
        return {key: thing[key] for key in sorted(TOP_LEVEL[kind]) if key in thing}
    return None


def differs_from(committed: Mapping[str, Any], tree: Tree) -> Iterator[Problem]:
    """What would be refused where an earlier tree, with these immutable parts, has been applied."""
    for thing in tree.objects:
        part = immutable(thing)
        if part is not None and where(thing) not in committed:
            yield Problem(where(thing), "is not in immutable.yaml yet")
        elif part is not None and part != committed[where(thing)]:
            yield Problem(where(thing), f"has changed for ever from {committed[where(thing)]} to {part}")
