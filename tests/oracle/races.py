"""Runs schedules of the protocols until the time is over, or one of them fails; then the failing one is made smaller."""

import itertools
import time
from collections.abc import Callable, Sequence
from random import Random

from devmesh.backends.valkey import Valkey
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.oracle.difference import Difference
from tests.oracle.protocols import schedules
from tests.oracle.protocols.community import Limits

SCHEDULES = 200
"""How many schedules are made of a seed, before it is the next one's turn."""


SHRINK_SECONDS = 30.0
"""How long a schedule that fails is made smaller."""


class Races:
    """Schedules on one Redis, by successive seeds. As in `trials`, one that is asked for again is not run again."""

    def __init__(self, first_seed: int, seconds: float, *, say: Callable[[str], None]) -> None:
        """`say` is given lines for whoever waits."""
        self._known: dict[str, str | None] = {}
        self._failed = False
        self._first_seed = first_seed
        self._until = time.monotonic() + seconds
        self._say = say
        self.schedules = 0
        self.steps = 0

    def run(self) -> None:
        """Raises Difference, with the seed and the smallest schedule that was found to fail."""
        with Valkey() as redis:
            for number in itertools.count(self._first_seed):
                if time.monotonic() >= self._until:
                    return
                self._run_seed(number, redis.port)
                self._say(f"schedules of seed {number}: {self.schedules} so far, {self.steps} steps")

    def _run_seed(self, number: int, redis_port: int) -> None:
        @seed(number)
        @settings(
            max_examples=SCHEDULES,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        )
        @given(schedules.SCHEDULES, schedules.LIMITS, schedules.PERSISTENCE, st.integers(0, 2**32))
        def race(acts: Sequence[schedules.Act], limits: Limits, persistence: float, dice: int) -> None:
            told = f"seed {number}, {limits}, persistence {persistence}, dice {dice}, acts {acts}"
            if told not in self._known:
                self._known[told] = self._tried(
                    told, lambda redis: schedules.run(redis, acts, limits, persistence, Random(dice)), redis_port
                )
            # From one place, whatever it was: else Hypothesis would take them for different ones.
            if (failure := self._known[told]) is not None:
                raise Difference(failure)

        race()

    def _tried(self, told: str, run: Callable[[int], int], redis_port: int) -> str | None:
        if time.monotonic() >= self._until:
            return None
        self.schedules += 1
        try:
            self.steps += run(redis_port)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}\n{told}"
            if not self._failed:
                self._failed = True
                self._until = time.monotonic() + SHRINK_SECONDS
                self._say(f"schedule {self.schedules}: FAILED\n{failure}")
            return failure
        return None
