"""Runs programmes until the time is over, or one of them fails; then the failing one is made smaller, for some time."""

import asyncio
import itertools
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from devmesh.mesh import Mesh
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.oracle.difference import Difference
from tests.oracle.fate import FREEZABLE
from tests.oracle.life import live
from tests.oracle.programmes import PEOPLE, Programme, is_dull
from tests.oracle.steps import Step, told

PROGRAMMES = 10
"""How many programmes are made of a seed, before it is the next one's turn."""
STEPS = 25
SHRINK_SECONDS = 150.0
"""How long a programme that fails is made smaller."""


class Trials:
    """Programmes on one mesh, by successive seeds.

    A programme that is asked for again is not run again: what failed once fails again, however rarely it does. So
    Hypothesis never calls it flaky, and it ends soon after the time for making it smaller is over.
    """

    def __init__(
        self, mesh: Mesh, first_seed: int, seconds: float, *, say: Callable[[str], None], shrink_seconds: float
    ) -> None:
        """`say` is given lines for whoever waits."""
        self._mesh = mesh
        self._first_seed = first_seed
        self._seed = first_seed
        self._until = time.monotonic() + seconds
        self._say = say
        self._shrink_seconds = shrink_seconds
        self._known: dict[tuple[Step, ...], str | None] = {}
        self._failed = False
        self.programmes = 0
        self.steps = 0

    def run(self) -> None:
        """Raises Difference, with the seed and the smallest programme that failed."""
        Programme.run = self._attempt
        for number in itertools.count(self._first_seed):
            if time.monotonic() >= self._until:
                return
            self._seed = number
            run_state_machine_as_test(
                seed(number)(Programme),
                settings=settings(
                    max_examples=PROGRAMMES,
                    stateful_step_count=STEPS,
                    database=None,
                    deadline=None,
                    phases=[Phase.generate, Phase.shrink],
                    report_multiple_bugs=False,
                    suppress_health_check=[
                        HealthCheck.too_slow,
                        HealthCheck.data_too_large,
                        HealthCheck.large_base_example,
                    ],
                ),
            )

    def _attempt(self, steps: Sequence[Step]) -> None:
        programme = tuple(steps)
        if programme not in self._known:
            self._known[programme] = self._tried(programme)
        failure = self._known[programme]
        # From one place, whatever it was: else Hypothesis would take them for different ones.
        if failure is not None:
            raise Difference(failure)

    def _tried(self, programme: tuple[Step, ...]) -> str | None:
        # The first that Hypothesis makes of every seed is the simplest one that there is.
        if time.monotonic() >= self._until or (is_dull(programme) and not self._failed):
            return None
        began = time.monotonic()
        failure = self._lived(programme)
        seconds = time.monotonic() - began
        self.programmes += 1
        self.steps += len(programme)
        told_as = f"programme {self.programmes}, seed {self._seed}: {len(programme)} steps, {seconds:.1f} s"
        if failure is None:
            self._say(told_as)
            return None
        self._say(f"{told_as}: FAILED\n{failure}" if not self._failed else f"{told_as}: fails too")
        if not self._failed:
            self._failed = True
            self._until = time.monotonic() + self._shrink_seconds
        return failure

    def _lived(self, programme: tuple[Step, ...]) -> str | None:
        try:
            asyncio.run(live(self._mesh, programme, PEOPLE))
        except Exception as error:
            account = "".join(traceback.format_exception(error))
            logs = self._keep_logs()
            lines = [str(error), *getattr(error, "__notes__", ()), f"seed {self._seed}", *told(programme)]
            if not isinstance(error, Difference):
                lines.append(account)
                # Nobody knows what such a failure leaves behind.
                self._mesh.stop()
                self._mesh.start()
            return "\n".join([*lines, f"logs: {logs}"])
        return None

    def _keep_logs(self) -> Path:
        directory = Path(tempfile.mkdtemp(prefix="oracle-"))
        for process in ("postgres", "redis", *FREEZABLE):
            (directory / f"{process}.log").write_text(self._mesh.log(process))
        return directory
