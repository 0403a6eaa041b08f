"""The rendered tree, as far as what runs pods looks at it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.k8s.rendering import K8S

PODMAN = K8S / "overlays" / "podman"
Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Tree:
    """What there is to run, and what that refers to."""

    deployments: Mapping[str, Manifest]
    config_maps: Sequence[Manifest]
    secrets: Sequence[Manifest]


def tree(objects: Sequence[Manifest]) -> Tree:
    """What podman is given of them."""

    def of_kind(kind: str) -> list[Manifest]:
        return [each for each in objects if each["kind"] == kind]

    deployments = {deployment["metadata"]["name"]: deployment for deployment in of_kind("Deployment")}
    return Tree(deployments, of_kind("ConfigMap"), of_kind("Secret"))


def pod_of(deployment: Manifest, name: str) -> Manifest:
    """A pod as the controller of a Deployment makes it of its template."""
    template = deployment["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }


def as_yaml(objects: Sequence[Manifest]) -> str:
    """JSON documents, which are YAML ones too."""
    return "\n---\n".join(map(json.dumps, objects))
