"""Whatever happens to a mesh, every walk equals the oracle, and every moment keeps its promises. `make test-oracle` runs
the same for longer."""

import os
import secrets
from pathlib import Path

import pytest
from devmesh.mesh import Mesh

from tests.oracle.races import Races
from tests.oracle.settings import SETTINGS
from tests.oracle.trials import Trials

pytestmark = pytest.mark.integration

RACE_SECONDS = 20.0
SECONDS = 60.0
SHRINK_SECONDS = 120.0


@pytest.mark.timeout(600)
def test_every_walk_equals_the_oracle_whatever_happens(tmp_path: Path) -> None:
    first_seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"seed {first_seed}")
    with Mesh(SETTINGS, directory=tmp_path) as mesh:
        trials = Trials(mesh, first_seed, SECONDS, say=print, shrink_seconds=SHRINK_SECONDS)
        trials.run()
    print(f"{trials.programmes} programmes, {trials.steps} steps, no difference, seed {first_seed}")
    assert trials.programmes


def test_the_protocols_keep_their_promises_however_their_steps_are_interleaved() -> None:
    first_seed = int(os.environ.get("SEED") or secrets.randbits(32))
    print(f"seed {first_seed}")
    races = Races(first_seed, RACE_SECONDS, say=print)
    races.run()
    assert races.schedules
