"""``python -m devmesh``: the command line, with stand-ins for the services."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from devmesh import probe

pytestmark = pytest.mark.integration

TOYS = Path(__file__).parent.parent / "toys"


class Shell:
    """Runs ``python -m devmesh`` in a directory, with modules that take the services' places."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stand_ins = directory / "stand-ins"
        self.stand_ins.mkdir()
        for service in ("post", "graph", "fanout", "timeline", "hydrate"):
            shutil.copy(TOYS / "toy_service.py", self.stand_ins / f"{service}_service.py")
        shutil.copy(TOYS / "toy_gateway.py", self.stand_ins / "gateway.py")
        self._started: list[subprocess.Popen[str]] = []

    @property
    def state_file(self) -> Path:
        return self.directory / ".devmesh" / "state.json"

    def run(self, *words: str) -> "subprocess.Popen[str]":
        path = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            [sys.executable, "-m", "devmesh", *words],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def up(self, *words: str) -> "subprocess.Popen[str]":
        path = os.pathsep.join([str(self.stand_ins), *filter(None, sys.path)])
        return self.run("up", "--no-seed", "--free-ports", "--set", f"PYTHONPATH={path}", *words)

    def ready(self) -> dict[str, dict[str, int]]:
        *_, up = self._started
        assert eventually(lambda: self.state_file.exists() or up.poll() is not None, 60)
        assert self.state_file.exists(), up.communicate()
        return json.loads(self.state_file.read_text())

    def finish(self, process: "subprocess.Popen[str]") -> tuple[int, str, str]:
        """(exit code, standard output, standard error) of its end."""
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("words", "threshold"), [([], 30), (["--set", "FEED_CELEBRITY_THRESHOLD=7"], 7)], ids=["unless told", "as told"]
)
def test_celebrities_are_few_in_a_small_community(shell: Shell, words: list[str], threshold: int) -> None:
    up = shell.up(*words)
    shell.ready()
    shell.run("down")
    _, out, _ = shell.finish(up)
    assert f"Posts of authors with {threshold} followers or more are pulled" in out
    log = shell.directory / ".devmesh" / "logs" / "fanout.log"
    assert f"FEED_CELEBRITY_THRESHOLD={threshold}" in log.read_text().splitlines()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_until_it_is_stopped_and_leaves_nothing(shell: Shell, stop: signal.Signals) -> None:
    up = shell.up()
    pids = shell.ready()["pids"]
    assert pids["mesh"] == up.pid
    assert all(map(lives, pids.values()))
    up.send_signal(stop)
    exit_code, out, err = shell.finish(up)
    assert (exit_code, err) == (0, "")
    assert "DEVELOPMENT MODE" in out
    assert out.rstrip().endswith("Stopped.")
    assert not any(map(lives, pids.values()))
    assert not shell.state_file.exists()


def test_the_state_file_holds_the_addresses_at_which_everything_answers(shell: Shell) -> None:
    shell.up()
    state = shell.ready()
    assert {int(target.rpartition(":")[2]) for target in map(str, state["grpc"].values())}
    assert all(probe.ready("grpc", int(str(target).rpartition(":")[2])) for target in state["grpc"].values())
    exit_code, out, _ = shell.finish(shell.run("status"))
    assert exit_code == 0
    assert str(state["gateway"]) in out


def test_down_stops_it_from_elsewhere(shell: Shell) -> None:
    up = shell.up()
    pids = shell.ready()["pids"]
    exit_code, out, _ = shell.finish(shell.run("down"))
    assert exit_code == 0
    assert "The mesh is down." in out
    assert shell.finish(up)[0] == 0
    assert not any(map(lives, pids.values()))


def test_down_where_none_runs_says_so_and_clears_a_stale_state_file(shell: Shell) -> None:
    """The stale file names a process that lives, ours; it must not be taken for a mesh."""
    shell.state_file.parent.mkdir()
    shell.state_file.write_text(json.dumps({"pids": {"mesh": os.getpid()}}))
    assert shell.finish(shell.run("down")) == (0, "No mesh runs here.\n", "")
    assert not shell.state_file.exists()


def test_a_second_one_in_the_same_directory_is_refused_and_harms_nothing(shell: Shell) -> None:
    up = shell.up()
    shell.ready()
    exit_code, out, err = shell.finish(shell.up())
    assert (exit_code, out) == (1, "")
    assert err == f"devmesh: a mesh already runs here (pid {up.pid}): make down stops it\n"
    assert shell.state_file.exists()
    assert up.poll() is None


def test_a_killed_one_takes_everything_with_it_and_does_not_hinder_the_next(shell: Shell) -> None:
    up = shell.up()
    pids = shell.ready()["pids"]
    up.kill()
    assert eventually(lambda: not any(map(lives, pids.values())))
    assert shell.state_file.exists()
    again = shell.up()
    assert eventually(lambda: shell.state_file.exists() and shell.ready()["pids"]["mesh"] == again.pid, 60)


def test_it_can_be_stopped_while_it_starts(shell: Shell) -> None:
    up = shell.up()
    assert eventually(lambda: any("postgres" in child.name() for child in psutil.Process(up.pid).children()), 30)
    children = [child.pid for child in psutil.Process(up.pid).children(recursive=True)]
    up.send_signal(signal.SIGINT)
    exit_code, out, err = shell.finish(up)
    assert (exit_code, err) == (0, "")
    assert "The mesh is ready" not in out
    assert not any(map(lives, children))
    assert not shell.state_file.exists()


def test_a_process_that_cannot_start_is_one_line_and_nothing_is_left(shell: Shell) -> None:
    exit_code, _, err = shell.finish(shell.up("--set", "TOY_TROUBLE=migrate"))
    assert exit_code == 1
    assert err.startswith("devmesh: ") and err.count("\n") == 1
    assert "ended with exit code 3 while migrating" in err
    assert not shell.state_file.exists()
    exit_code, _, err = shell.finish(shell.run("status"))
    assert (exit_code, err) == (1, "devmesh: no mesh runs here\n")


def test_a_port_in_use_is_one_line_with_the_way_out(shell: Shell) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port: int = listener.getsockname()[1]
        exit_code, _, err = shell.finish(shell.up("--gateway-port", str(port)))
    assert exit_code == 1
    assert err.startswith(f"devmesh: port {port} (gateway) is in use: stop what listens there, or run make up ARGS=")
    assert err.count("\n") == 1
    assert not shell.state_file.exists()


def test_a_dead_process_is_started_again_and_the_state_file_follows(shell: Shell) -> None:
    up = shell.up()
    pid = shell.ready()["pids"]["hydrate"]
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: shell.ready()["pids"]["hydrate"] != pid)
    up.send_signal(signal.SIGINT)
    _, out, _ = shell.finish(up)
    assert "hydrate was killed by SIGKILL; started again as pid" in out


def test_a_dead_backend_ends_it_with_one_line(shell: Shell) -> None:
    up = shell.up()
    pids = shell.ready()["pids"]
    os.kill(pids["kafka"], signal.SIGKILL)
    exit_code, _, err = shell.finish(up)
    assert exit_code == 1
    assert err.startswith("devmesh: kafka was killed by SIGKILL") and err.count("\n") == 1
    assert not any(map(lives, pids.values()))


def test_a_setting_that_is_none_is_refused(shell: Shell) -> None:
    exit_code, _, err = shell.finish(shell.up("--set", "FEED_TIMELINE_LENGTH"))
    assert exit_code == 2
    assert "'FEED_TIMELINE_LENGTH' is not NAME=VALUE" in err
