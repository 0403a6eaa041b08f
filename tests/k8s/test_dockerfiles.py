"""The Dockerfiles: clean by the linter, and one as the other, so that what they share is built once."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted([*ROOT.glob("services/*/Dockerfile"), ROOT / "gateway" / "Dockerfile"])
# From here on each installs what its own service needs.
OWN_PART = "\n# What these"

pytestmark = pytest.mark.manifests


def test_the_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run([hadolint, *DOCKERFILES], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_each_rule_that_is_ignored_has_its_reason_above_it(dockerfile: Path) -> None:
    lines = dockerfile.read_text().splitlines()
    for above, line in pairwise(lines):
        if "hadolint ignore" in line:
            assert re.match(r"# [A-Z].*\.$", above)


def test_all_fetch_wheels_in_the_same_layer() -> None:
    shared = {dockerfile.read_text().split("\n", 1)[1].partition(OWN_PART)[0] for dockerfile in DOCKERFILES}
    assert len(shared) == 1
    assert "--require-hashes" in shared.pop()
