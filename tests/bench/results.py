"""The figures of a run, as they are written to bench/results.json."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FILE = Path("bench/results.json")


@dataclass(frozen=True)
class Result:
    """One figure."""

    key: str
    value: float
    """The median of the runs."""
    unit: str
    goal: Literal["higher", "lower"]
    runs: int
    spread: float
    """The largest run less the smallest, as a part of the median."""
    ceiling: float | None = None
    """What cannot be passed, where that is known."""

    @classmethod
    def of(
        cls,
        key: str,
        runs: Sequence[float],
        *,
        unit: str,
        goal: Literal["higher", "lower"],
        ceiling: float | None = None,
    ) -> "Result":
        """The figure that some runs come to."""
        median = statistics.median(runs)
        return cls(key, round(median, 4), unit, goal, len(runs), round((max(runs) - min(runs)) / median, 3), ceiling)

    def __str__(self) -> str:
        return f"{self.key:45} {self.value:>10.4g} {self.unit:6} (median of {self.runs}, spread {self.spread:.0%})"


def write(results: Iterable[Result]) -> None:
    """Write them all; keys that were not measured this time keep their figures."""
    figures: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for result in results:
        figure = {"value": result.value, "goal": result.goal, "unit": result.unit}
        if result.ceiling is not None:
            figure["ceiling"] = result.ceiling
        figures[result.key] = {**figure, "runs": result.runs, "spread": result.spread}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
