"""A process whose clock steps: `python stepped_clock.py FILE MODULE` runs a module with the clock that a file tells.

The file holds by how many milliseconds the wall clock, as Python reads it, is ahead. The monotonic clock never steps.
"""

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

_OFFSET_MS = struct.Struct("=q")


class SteppedClock:
    """The clock of such a process, as a test sets it."""

    def __init__(self, file: Path) -> None:
        self.launcher = (Path(__file__), file)
        """What runs a module by this clock."""
        self._file = file
        self.step_to(0)

    def step_to(self, offset_ms: int) -> None:
        """Let the clock be ahead by so much from now on; behind, where it is negative."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(_OFFSET_MS.pack(offset_ms))


def _run(file: Path, module: str) -> None:
    real_time_ns = time.time_ns
    with file.open("rb") as opened:
        offset_ms = memoryview(mmap.mmap(opened.fileno(), _OFFSET_MS.size, access=mmap.ACCESS_READ)).cast("q")

    def time_ns() -> int:
        return real_time_ns() + offset_ms[0] * 1_000_000

    def seconds() -> float:
        return time_ns() / 1e9

    time.time_ns, time.time = time_ns, seconds
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(Path(sys.argv[1]), sys.argv[2])
