"""Nothing that a mesh starts outlives it, however the mesh ends.

A mesh that is stopped in order stops its children itself. This module is for every other end: SIGKILL, a crash, a
closed terminal. ``PR_SET_PDEATHSIG`` would be the usual means, but it exists on Linux alone, is tied to the *thread*
that forked, and needs ``preexec_fn``, which is unsafe in a process that has threads. Two pipes do it everywhere:

- the *leash*: its write end is held by the mesh alone, so it reads end-of-file the moment the mesh is gone;
- the *pulse*: its write end is inherited by every child and grandchild, so it reads end-of-file when all are gone.

A small process, the guard, waits on the leash. All children share one process group, which a second tiny process
(the anchor) holds open and names, so that one signal reaches whatever runs at that moment: there is no list to keep,
and no instant between starting a child and noting it down in which it could be forgotten. Being in a group of their
own also keeps Ctrl-C in the terminal from reaching the children before the mesh can stop them in order.

This file is also run as a script, without the package and its dependencies: only the standard library here.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

# What is left when the mesh has died is asked to end (PostgreSQL leaves shared memory behind when it is killed), and
# is killed when it has not ended after this many seconds.
GRACE_SECONDS = 3.0


class Guard:
    """Starts processes that end with this one, and owns a scratch directory that vanishes with them.

    Thread-safe as far as ``subprocess.Popen`` is. ``close`` ends everything that still runs.
    """

    def __init__(self) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="devmesh-"))
        # A server that has to run as another user reads its binaries and its data below this directory.
        self.scratch.chmod(0o711)
        leash_read, self._leash = os.pipe()
        pulse_read, self._pulse = os.pipe()
        answer_read, answer_write = os.pipe()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            try:
                self._process = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-I", "-S", __file__, str(pulse_read), str(self.scratch)],
                    stdin=leash_read,
                    stdout=answer_write,
                    pass_fds=[pulse_read],
                    process_group=0,
                )
            finally:
                os.close(leash_read)
                os.close(pulse_read)
                os.close(answer_write)
            self._group = int(os.read(answer_read, 32))
        except BaseException:
            # Ctrl-C while the guard starts, perhaps before it is known here: letting go of the leash ends it.
            self.close()
            raise
        finally:
            os.close(answer_read)

    def popen(
        self,
        command: Sequence[str],
        *,
        log: IO[bytes],
        environment: Mapping[str, str],
        account: tuple[int, int] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> "subprocess.Popen[bytes]":
        """Start ``command`` under guard, its output going to ``log``.

        ``account`` is the (uid, gid) to run as, for a process of root; ``None`` keeps the present one.
        """
        uid, gid = account if account is not None else (None, None)
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
            user=uid,
            group=gid,
            extra_groups=[] if account is not None else None,
            process_group=self._group,
            pass_fds=[self._pulse, *pass_fds],
        )

    def close(self) -> None:
        """End whatever still runs, and return when nothing does. May be called again."""
        if self._closed:
            return
        self._closed = True
        os.close(self._pulse)
        os.close(self._leash)
        if self._process is not None:
            self._process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


def _stand_guard(pulse: int, scratch: Path) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    anchor = os.fork()
    if anchor == 0:
        os.setpgid(0, 0)
        os.read(sys.stdin.fileno(), 1)
        os._exit(0)
    # Both set it, because either may come first; the second finds it done, or the anchor already gone.
    with suppress(PermissionError, ProcessLookupError):
        os.setpgid(anchor, anchor)
    # Nobody reads it any more where the mesh was interrupted meanwhile.
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), f"{anchor}\n".encode())
    os.read(sys.stdin.fileno(), 1)
    for ending in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(anchor, ending)
        if _all_gone(pulse):
            break
    shutil.rmtree(scratch, ignore_errors=True)


def _all_gone(pulse: int) -> bool:
    readable, _, _ = select.select([pulse], [], [], GRACE_SECONDS)
    return bool(readable)


if __name__ == "__main__":
    _stand_guard(int(sys.argv[1]), Path(sys.argv[2]))
