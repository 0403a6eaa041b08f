"""Rendered trees, each rendered once."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.k8s import outside
from tests.k8s.checks.objects import Tree
from tests.k8s.rendering import K8S, add_ons, combine, tree

OVERLAYS = K8S / "overlays"


@pytest.fixture(scope="session")
def default() -> Tree:
    """What `kubectl apply -k k8s` applies."""
    return tree(K8S)


@pytest.fixture(scope="session")
def production() -> Tree:
    """The same processes beside managed backends, and Secrets that somebody else brings."""
    return tree(OVERLAYS / "production", outside.secrets())


@pytest.fixture(scope="session")
def podman() -> Tree:
    """The default tree, as podman can run it."""
    return tree(OVERLAYS / "podman")


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Tree]:
    """The default tree and production, with each component that the one or the other leaves out."""
    scratch = tmp_path_factory.mktemp("kustomizations")

    def of(whole: Path, component: Path) -> Tree:
        name = f"{whole.name}+{component.name}"
        brought = outside.secrets() if whole.name == "production" else {}
        return tree(combine(scratch / name, whole, [component]), brought)

    return {
        extended.name: extended
        for whole in (K8S, OVERLAYS / "production")
        for component in add_ons()
        if (extended := of(whole, component))
    }
