"""First pages of the ranked view beside those of LATEST, on one warm mesh, in interleaved runs.

Read by one client after another, how long a page takes; by several at once, how many there are a second. The latter ratio
is higher: nearly all that ranking adds is the work of `timeline`, which has one process here.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from tests.bench.read_throughput import CONNECTIONS, rate, warm_mesh
from tests.bench.results import Result


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure; how many times as long a ranked page takes, and how many there are a second."""
    with ExitStack() as stack:
        port, viewers = warm_mesh(stack)
        _rates(port, viewers, 1.0, CONNECTIONS)  # warm up
        alone = [_rates(port, viewers, seconds, 1) for _ in range(runs)]
        many = [_rates(port, viewers, seconds, CONNECTIONS) for _ in range(runs)]
    return [
        Result.of("read.ranked.time_vs_latest", [a / b for a, b in alone], unit="ratio", goal="lower"),
        Result.of("read.ranked.ms", [1000 / ranked for _, ranked in alone], unit="ms", goal="lower"),
        Result.of("read.ranked.cost_vs_latest", [a / b for a, b in many], unit="ratio", goal="lower"),
        Result.of("read.ranked.per_second", [ranked for _, ranked in many], unit="1/s", goal="higher"),
    ]


def _rates(port: int, viewers: Sequence[int], seconds: float, connections: int) -> tuple[float, float]:
    """Pages of LATEST and ranked ones a second."""
    latest = rate(port, viewers, seconds, connections=connections)
    return latest, rate(port, viewers, seconds, view="ranked", connections=connections)
