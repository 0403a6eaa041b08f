"""Renders kustomizations: those that are committed, and such as a cluster's owner would write over them."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import yaml

from tests.k8s.checks.objects import Object, Tree

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def render(directory: Path) -> str:
    """What `kubectl apply -k` would apply. Raises AssertionError with what kustomize says, warnings among it."""
    done = subprocess.run(["kubectl", "kustomize", str(directory)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, f"{directory}: {done.stderr}"
    return done.stdout


def objects(text: str) -> list[Object]:
    """The objects of a YAML stream."""
    return [cast("Object", thing) for thing in yaml.load_all(text, LOADER) if thing is not None]


def tree(directory: Path, outside: Mapping[str, frozenset[str]] | None = None) -> Tree:
    """A rendered kustomization."""
    return Tree(_name(directory), objects(render(directory)), outside or {})


def _name(directory: Path) -> str:
    return str(directory.relative_to(ROOT)) if directory.is_relative_to(ROOT) else directory.name


def combine(directory: Path, resource: Path, components: Sequence[Path]) -> Path:
    """Write, into an empty directory, a kustomization of a tree and components over it."""
    directory.mkdir(parents=True)
    document: Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [_relative(directory, resource)],
        "components": [_relative(directory, component) for component in components],
    }
    (directory / "kustomization.yaml").write_text(json.dumps(document), encoding="utf-8")
    return directory


def _relative(directory: Path, other: Path) -> str:
    return os.path.relpath(other, directory)


def every_component() -> list[Path]:
    """All components."""
    return sorted(path.parent for path in (K8S / "components").rglob("kustomization.yaml"))


def add_ons() -> list[Path]:
    """The components that the default tree does without, each of which can be added to any tree."""
    document = yaml.safe_load((K8S / "kustomization.yaml").read_text(encoding="utf-8"))
    contained = [K8S / component for component in document["components"]]
    return [
        component
        for component in every_component()
        if not any(component == one or one in component.parents for one in contained)
    ]
