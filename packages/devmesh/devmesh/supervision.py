"""When a process that died is started again, and when that has become pointless."""

import signal
from collections import Counter

QUICK_SECONDS = 10.0
QUICK_DEATHS = 3

# Somebody, or a test of faults, ended it: that says nothing about whether it can run.
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)


class RestartPolicy:
    """Gives a process up at its third *failure* in a row.

    A failure is a death within 10 s of its own start, except one by a signal from outside after it had become ready:
    ``kill -9`` of the same process every few seconds is a way to try the mesh, not a reason to end it.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def restart(self, process: str, *, lived: float, was_ready: bool, exit_code: int) -> bool:
        """Note a death, ``lived`` seconds after its start; whether to start the process again."""
        if lived >= QUICK_SECONDS or (was_ready and exit_code in _FROM_OUTSIDE):
            self._failures[process] = 0
        else:
            self._failures[process] += 1
        return self._failures[process] < QUICK_DEATHS
