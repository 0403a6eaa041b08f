"""Runs random programmes for a while: `make test-oracle MINUTES=10`, and with SEED=… those of a run before."""

import os
import secrets
import sys
import tempfile
from pathlib import Path

import click

# The mesh starts processes while calls are under way, of which the C core of gRPC would tell.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

RACING = 0.4
"""Which part of the time is for the protocols alone; the rest is for whole meshes."""


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.0), default=10.0, show_default=True, help="How long it runs.")
@click.option("--seed", type=click.IntRange(min=0), default=None, help="Run the programmes of this seed.")
def main(minutes: float, seed: int | None) -> None:
    """Hold random programmes against the invariant."""
    from devmesh.mesh import Mesh

    from tests.oracle.difference import Difference
    from tests.oracle.races import Races
    from tests.oracle.settings import SETTINGS
    from tests.oracle.trials import SHRINK_SECONDS, Trials

    seed = secrets.randbits(32) if seed is None else seed
    click.echo(f"seed {seed}")
    races = Races(seed, minutes * 60 * RACING, say=click.echo)
    try:
        races.run()
        with tempfile.TemporaryDirectory() as directory, Mesh(SETTINGS, directory=Path(directory)) as mesh:
            seconds = minutes * 60 * (1 - RACING)
            trials = Trials(mesh, seed, seconds, say=click.echo, shrink_seconds=SHRINK_SECONDS)
            trials.run()
    except Difference as difference:
        raise click.ClickException(str(difference)) from None
    click.echo(
        f"{races.schedules} schedules of {races.steps} steps, {trials.programmes} programmes of {trials.steps} steps, "
        f"no difference, seed {seed}"
    )


if __name__ == "__main__":
    main()
