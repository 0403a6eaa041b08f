"""One process of the mesh while it runs: its log, its end, and what it last said."""

import json
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, cast

from devmesh.errors import MeshCancelled, MeshError
from devmesh.guard import Guard

_POLL_SECONDS = 0.02
_TAIL_LINES = 60
_PORT_TAKEN = re.compile(
    r"address already in use|failed to bind|could not bind|could not create any TCP/IP sockets", re.IGNORECASE
)
_GRAVE = re.compile(r"\b(FATAL|PANIC|CRITICAL|ERROR)\b", re.IGNORECASE)


class Child:
    """A started process. Its output is appended to ``log``.

    Raises ``MeshError`` from the constructor when the command cannot be run at all.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        guard: Guard,
        log: Path,
        environment: Mapping[str, str],
        port: int | None = None,
        account: tuple[int, int] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        self.port = port
        self.started = time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            # Only what this process says is its last words, not what an earlier one of the same name said.
            self._log_start = output.tell()
            try:
                self._process = guard.popen(
                    command,
                    log=output,
                    environment=environment,
                    account=account,
                    cwd=cwd,
                    pass_fds=pass_fds,
                )
            except OSError as error:
                raise MeshError(f"{name} cannot be started: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """``None`` while it runs; negative: the signal that ended it, as in ``subprocess``."""
        return self._process.poll()

    def wait(self, seconds: float, cancelled: Event | None = None) -> int:
        """Wait for its end; ``MeshError`` when it has not ended after ``seconds``."""
        deadline = time.monotonic() + seconds
        while (exit_code := self.exit_code) is None:
            self._pause(deadline, f"{self.name} has not finished after {seconds:g} s", cancelled)
        return exit_code

    def wait_until(self, ready: Callable[[], bool], seconds: float, cancelled: Event | None = None) -> None:
        """Poll ``ready``; ``MeshError`` when the process ends first or ``seconds`` have passed."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self.exit_code is not None:
                raise self.death("while starting")
            self._pause(deadline, f"{self.name} is not ready after {seconds:g} s", cancelled)

    def end(self, how: signal.Signals, grace: float) -> int:
        """Ask it to end by the signal ``how``, kill it when it has not after ``grace`` seconds; its exit code."""
        if self._process.poll() is None:
            # A process that a test has frozen would take no notice.
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
        try:
            return self._process.wait(grace)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """End it at once and reap it; its exit code (-9, or its own when it had ended before)."""
        self._process.kill()
        return self._process.wait()

    def death(self, when: str) -> MeshError:
        """The error that tells of its end, in plain words where the cause is known."""
        with self.log.open("rb") as output:
            output.seek(self._log_start)
            words = last_words(output.read().decode(errors="replace"))
        if self.port is not None and _PORT_TAKEN.search(words):
            return MeshError(f"port {self.port} of {self.name} is in use: stop what listens there")
        return MeshError(f"{self.name} {ending(self.exit_code)} {when}: {words or 'it said nothing'} (log: {self.log})")

    def _pause(self, deadline: float, too_late: str, cancelled: Event | None) -> None:
        if cancelled is not None and cancelled.is_set():
            raise MeshCancelled
        if time.monotonic() > deadline:
            raise MeshError(f"{too_late} (log: {self.log})")
        time.sleep(_POLL_SECONDS)


def ending(exit_code: int | None) -> str:
    """How a process ended, in words: ``ended with exit code 1``, ``was killed by SIGKILL``."""
    if exit_code is not None and exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"


def last_words(log: str) -> str:
    """The line of a log that tells best why the process ended: the last grave one of its end, else the last one.

    A JSON line is reduced to its message, so that it reads like the others.
    """
    tail = deque((line.strip() for line in log.splitlines() if line.strip()), maxlen=_TAIL_LINES)
    grave = [line for line in tail if _PORT_TAKEN.search(line)] or [line for line in tail if _GRAVE.search(line)]
    if grave:
        return _message(grave[-1])
    return _message(tail[-1]) if tail else ""


def _message(line: str) -> str:
    try:
        fields: Any = json.loads(line)
    except ValueError:
        return line
    if not isinstance(fields, dict):
        return line
    message = cast("dict[str, Any]", fields).get("message")
    return message if isinstance(message, str) else line
