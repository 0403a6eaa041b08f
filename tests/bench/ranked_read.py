"""First pages of the ranked view beside those of LATEST, on one warm mesh, in interleaved runs."""

from collections.abc import Sequence
from contextlib import ExitStack

from tests.bench.read_throughput import rate, warm_mesh
from tests.bench.results import Result


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure; how many times as long a ranked page takes, and how many there are a second."""
    with ExitStack() as stack:
        port, viewers = warm_mesh(stack)
        _rates(port, viewers, 1.0)  # warm up
        rates = [_rates(port, viewers, seconds) for _ in range(runs)]
    return [
        Result.of(
            "read.ranked.time_vs_latest", [latest / ranked for latest, ranked in rates], unit="ratio", goal="lower"
        ),
        Result.of("read.ranked.per_second", [ranked for _, ranked in rates], unit="1/s", goal="higher"),
    ]


def _rates(port: int, viewers: Sequence[int], seconds: float) -> tuple[float, float]:
    return rate(port, viewers, seconds), rate(port, viewers, seconds, view="ranked")
