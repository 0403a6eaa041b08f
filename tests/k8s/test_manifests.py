"""Every kustomization renders to a tree that a cluster takes, and in which everything that is named is there."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from tests.k8s.checks import CHECKS, references, schemas
from tests.k8s.checks.immutable import differs_from
from tests.k8s.checks.objects import Check, Problem, Tree, Workload, at, name_of, where
from tests.k8s.checks.resources import requested
from tests.k8s.checks.settings import told
from tests.k8s.rendering import K8S, combine, every_component, tree

pytestmark = pytest.mark.manifests

IMMUTABLE = Path(__file__).with_name("immutable.yaml")
TO_BE_FILLED_IN = ("FEED_AUTH_MODE", "asks kafka.feed.svc:9092: there is no Service kafka")
"""What production has to be told first: how the gateway knows who is asking, and with KEDA where the brokers are."""
NODE = {"cpu": Decimal(4), "memory": Decimal(8 * 1024**3)}
"""The smallest cluster that is promised to hold the default tree."""


def problems(checks: Iterator[Check] | tuple[Check, ...], tree: Tree) -> list[str]:
    """All that the checks say of the tree."""
    return [str(problem) for check in checks for problem in check(tree)]


# --- what is applied -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.__module__.rpartition('.')[2]}-{check.__name__}")
def test_the_default_tree(default: Tree, check: Check) -> None:
    assert problems((check,), default) == []


def test_production_lacks_nothing_but_a_way_to_know_who_is_asking(production: Tree) -> None:
    unknown = Problem("Deployment/gateway gateway", "would not start: FEED_AUTH_MODE: Field required")
    assert problems(CHECKS, production) == [str(unknown)]


def test_each_component_can_be_added(extended: Mapping[str, Tree]) -> None:
    for name, larger in extended.items():
        found = problems(CHECKS, larger)
        assert [problem for problem in found if not any(known in problem for known in TO_BE_FILLED_IN)] == [], name


@pytest.mark.parametrize("component", every_component(), ids=lambda path: str(path.relative_to(K8S / "components")))
def test_each_component_renders_with_the_base_alone(component: Path, tmp_path: Path) -> None:
    assert problems(schemas.CHECKS, tree(combine(tmp_path / "combined", K8S / "base", [component]))) == []


def test_the_base_renders_alone() -> None:
    assert problems((*schemas.CHECKS, references.services, references.selected), tree(K8S / "base")) == []


def test_every_kustomization_is_rendered_by_these_tests() -> None:
    known = {K8S, K8S / "base", *every_component(), K8S / "overlays" / "production", K8S / "overlays" / "podman"}
    parts = {path.parent for path in (K8S / "base").glob("*/kustomization.yaml")}
    assert {path.parent for path in K8S.rglob("kustomization.yaml")} == known | parts


# --- what only some trees have to keep ---------------------------------------------------------------------------------


def test_the_default_tree_fits_on_a_small_node(default: Tree) -> None:
    for resource, amount in requested(default).items():
        assert amount <= NODE[resource], resource


def test_nothing_that_stays_for_ever_has_changed(default: Tree, production: Tree, extended: Mapping[str, Tree]) -> None:
    committed = yaml.safe_load(IMMUTABLE.read_text(encoding="utf-8"))
    trees = [default, production, *extended.values()]
    assert [str(problem) for tree in trees for problem in differs_from(committed, tree)] == []
    assert {*committed} <= {where(thing) for tree in trees for thing in tree.objects}


def test_the_broker_that_keda_asks_is_started_as_the_other_one(default: Tree, extended: Mapping[str, Tree]) -> None:
    """The component has to repeat how Kafka is started, the cluster's id among it, to say by which name others reach it."""

    def command(tree: Tree) -> str:
        (kafka,) = [workload for workload in tree.workloads if workload.name == "kafka"]
        return kafka.containers[0]["command"][-1].strip()

    override = " \\\n  --override advertised.listeners=PLAINTEXT://kafka.feed.svc:9092"
    assert command(extended["k8s+keda"]) == command(default) + override


def test_production_has_no_secret_in_the_tree(production: Tree) -> None:
    assert production.of("Secret") == []


def test_production_has_no_backend_in_the_tree(production: Tree) -> None:
    assert all(workload.is_ours for workload in production.workloads)


def test_podman_runs_the_default_tree(default: Tree, podman: Tree) -> None:
    """The same processes, told the same, allowed the same: what differs is how they are watched and where they listen."""
    assert {workload.name for workload in podman.workloads} == {workload.name for workload in default.workloads}
    for workload in default.workloads:
        other = Workload(next(thing for thing in podman.of("Deployment") if name_of(thing) == workload.name))
        assert other.labels == workload.labels
        assert other.pod["securityContext"] == workload.pod["securityContext"]
        for container, same in zip(workload.all_containers, other.all_containers, strict=True):
            assert told(podman, same) == told(default, container)
            for field in ("image", "command", "args", "securityContext", "resources", "volumeMounts"):
                assert same.get(field) == container.get(field), (workload.name, field)


def test_podman_publishes_no_port_of_a_pod(podman: Tree) -> None:
    assert all("ports" not in container for workload in podman.workloads for container in workload.all_containers)


def test_podman_needs_nothing_that_is_not_there(podman: Tree) -> None:
    assert problems((*schemas.CHECKS, references.configuration, references.volumes), podman) == []


def test_there_is_a_way_in(default: Tree) -> None:
    (ingress,) = default.of("Ingress")
    (rule,) = at(ingress, "spec.rules")
    assert [path["backend"]["service"]["name"] for path in rule["http"]["paths"]] == ["gateway"]
