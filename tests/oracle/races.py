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


class Races:
    """Schedules on one Redis, by successive seeds."""

    def __init__(self, first_seed: int, seconds: float, *, say: Callable[[str], None]) -> None:
        """`say` is given lines for whoever waits."""
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
            if time.monotonic() < self._until:
                self.schedules += 1
                self._lived(number, redis_port, acts, limits, persistence, dice)

        race()

    def _lived(  # noqa: PLR0917 - what a schedule is made of
        self,
        number: int,
        redis_port: int,
        acts: Sequence[schedules.Act],
        limits: Limits,
        persistence: float,
        dice: int,
    ) -> None:
        try:
            self.steps += schedules.run(redis_port, acts, limits, persistence, Random(dice))
        except Exception as error:
            told = f"{error}\nseed {number}, {limits}, persistence {persistence}, dice {dice}, acts {acts}"
            self._say(f"schedule {self.schedules}: FAILED\n{told}")
            raise Difference(told) from error
