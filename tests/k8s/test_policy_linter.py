"""What others know about bad manifests: all rules of Checkov for Kubernetes hold, but for those below, each with a reason.

Checkov has an environment of its own, since it wants other versions of what the project uses too. It works offline.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.k8s.checks.objects import Tree, canonical
from tests.k8s.rendering import ROOT

pytestmark = pytest.mark.manifests

CHECKOV = ROOT / ".checkov" / "bin" / "checkov"
BACKENDS = {"StatefulSet.feed.kafka", "StatefulSet.feed.postgres", "StatefulSet.feed.redis"}

NOT_MEANT = {
    "CKV_K8S_11": "no limit of CPU: it would stop a process for the rest of a period even where the node is idle",
    "CKV_K8S_15": "no pull at every start: tags are not moved, and without a registry pods have to start too",
    "CKV_K8S_35": "secrets as variables: processes read all their settings so, and start no others that would inherit them",
    "CKV_K8S_43": "no digests: whoever applies the tree builds the images; where digests go is in production's README",
}
"""Rules that are not followed, and why."""
ONLY_FOR_BACKENDS = {
    "CKV_K8S_40": "users below 10000: those that the official images of PostgreSQL, Redis and Kafka were made for",
}


@pytest.fixture(scope="module")
def failed(default: Tree, production: Tree, tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """Every rule that is broken, and by whom."""
    assert CHECKOV.exists(), "Checkov is not installed; `make test-k8s` does that"
    directory = tmp_path_factory.mktemp("rendered")
    for tree in (default, production):
        (directory / tree.name).mkdir(parents=True)
        for number, thing in enumerate(tree.objects):
            (directory / tree.name / f"{number}.json").write_text(canonical(thing), encoding="utf-8")
    return {(failure["check_id"], failure["resource"]) for failure in _failures(directory)}


def _failures(directory: Path) -> list[dict[str, Any]]:
    command = [
        CHECKOV,
        "--directory",
        directory,
        "--framework",
        "kubernetes",
        "--skip-download",
        "--quiet",
        "--compact",
    ]
    environment = {**os.environ, "CKV_SKIP_PACKAGE_UPDATE_CHECK": "true", "LOG_LEVEL": "ERROR"}
    done = subprocess.run(
        [*command, "--soft-fail", "--output", "json"], env=environment, capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] > 1000, "it looked at too little"
    return report["results"]["failed_checks"]


def test_no_rule_is_broken_without_a_reason(failed: set[tuple[str, str]]) -> None:
    unreasoned = {
        (rule, resource)
        for rule, resource in failed
        if rule not in NOT_MEANT and not (rule in ONLY_FOR_BACKENDS and resource in BACKENDS)
    }
    assert unreasoned == set()


def test_no_reason_is_given_for_a_rule_that_is_kept(failed: set[tuple[str, str]]) -> None:
    assert {rule for rule, _ in failed} >= {*NOT_MEANT, *ONLY_FOR_BACKENDS}
