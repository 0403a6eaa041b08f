"""Applying over what runs: a new version or another value changes the pods that it concerns, and nothing has to be deleted.

What only a cluster can show is under load and in `cluster`; this is what follows from the rendered trees alone.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.k8s.checks.immutable import immutable
from tests.k8s.checks.objects import Object, Tree, where
from tests.k8s.rendering import K8S, render, tree

pytestmark = pytest.mark.manifests

Edited = Callable[[str, str, str], Tree]
HASHED = ("ConfigMap", "Secret")


@pytest.fixture
def edited(tmp_path: Path) -> Edited:
    """Renders a copy of the default tree in one file of which a text is another."""

    def render_edited(file: str, before: str, after: str) -> Tree:
        copy = tmp_path / "k8s"
        shutil.copytree(K8S, copy)
        text = (copy / file).read_text(encoding="utf-8")
        assert before in text
        (copy / file).write_text(text.replace(before, after), encoding="utf-8")
        return tree(copy)

    return render_edited


def by_identity(tree: Tree, *, hashed: bool = False) -> dict[str, Object]:
    """Objects by kind and name: those whose name is a hash of what is in them, or all others."""
    return {where(thing): thing for thing in tree.objects if (thing["kind"] in HASHED) is hashed}


def changed_pods(before: Tree, after: Tree) -> set[str]:
    """The workloads whose pods are replaced."""
    now = {workload.name: workload.object["spec"]["template"] for workload in after.workloads}
    return {workload.name for workload in before.workloads if workload.object["spec"]["template"] != now[workload.name]}


def assert_can_be_applied_over(before: Tree, after: Tree) -> None:
    """No object is taken away, and none changes in what the API server refuses to change."""
    old, new = by_identity(before), by_identity(after)
    assert old.keys() == new.keys()
    assert {name for name in old if immutable(old[name]) != immutable(new[name])} == set()


def test_rendering_again_changes_nothing() -> None:
    assert render(K8S) == render(K8S)


def test_another_version_replaces_our_pods_and_leaves_the_stores_alone(default: Tree, edited: Edited) -> None:
    newer = edited("base/kustomization.yaml", "0.1.0", "0.2.0")
    assert_can_be_applied_over(default, newer)
    assert changed_pods(default, newer) == {workload.name for workload in default.workloads if workload.is_ours}
    assert by_identity(default, hashed=True).keys() == by_identity(newer, hashed=True).keys()


class Edit(NamedTuple):
    """A value that is changed, whose it is, and whose pods read it."""

    file: str
    before: str
    after: str
    kept_in: str
    read_by: set[str]


OURS = {"gateway", "timeline", "hydrate", "post", "graph", "fanout", "post-relay", "graph-relay"}
EDITS = (
    Edit("base/settings.env", "FEED_GRACE_SECONDS=10", "FEED_GRACE_SECONDS=11", "feed-settings", OURS),
    Edit("components/backends/redis/redis.conf", "384mb", "383mb", "redis-configuration", {"redis"}),
    Edit("components/backends/kafka/server.properties", "hours=168", "hours=24", "kafka-configuration", {"kafka"}),
    Edit(
        "components/development/throw-away.env",
        "operator-token=throw-away",
        "operator-token=a-throw-away",
        "feed-throw-away",
        {"post", "graph", "post-relay", "graph-relay", "postgres"},
    ),
)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.kept_in)
def test_another_value_replaces_exactly_the_pods_that_read_it(default: Tree, edited: Edited, edit: Edit) -> None:
    changed = edited(edit.file, edit.before, edit.after)
    assert_can_be_applied_over(default, changed)
    assert changed_pods(default, changed) == edit.read_by
    old, new = by_identity(default, hashed=True), by_identity(changed, hashed=True)
    (gone,) = old.keys() - new.keys()
    (come,) = new.keys() - old.keys()
    # Applying does not take the old one away, so pods that have not been replaced yet go on reading what they read.
    assert gone.partition("/")[2].startswith(edit.kept_in)
    assert come.partition("/")[2].startswith(edit.kept_in)


def test_applying_again_leaves_the_number_of_pods_to_who_scales(default: Tree) -> None:
    """A Deployment that does not say its replicas keeps those that it has been scaled to."""
    scaled = {thing["spec"]["scaleTargetRef"]["name"] for thing in default.of("HorizontalPodAutoscaler")}
    assert scaled == {workload.name for workload in default.workloads if workload.is_ours}
    assert all("replicas" not in workload.object["spec"] for workload in default.workloads if workload.is_ours)


def test_production_is_reached_without_taking_anything_else_away(default: Tree, production: Tree) -> None:
    """Between the overlays only the backends, and what belongs to them, come and go."""
    backends = {"postgres", "redis", "kafka"}
    gone = by_identity(default).keys() - by_identity(production).keys()
    assert {identity.partition("/")[2] for identity in gone} <= backends
    common = by_identity(default).keys() & by_identity(production).keys()
    assert all(immutable(by_identity(default)[name]) == immutable(by_identity(production)[name]) for name in common)
