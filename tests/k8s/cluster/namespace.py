"""A machine within the machine, for containers: namespaces of its own for network, mounts, processes, IPC and host name.

All that containers leave behind (bridges, firewall rules, mounts, layers, volumes, secrets, processes) is inside, most
of it in memory, and is gone with the first process of the namespace, which the kernel kills when the process that made
it dies, however it dies. Images are those of the host's store, which is only read.
"""

import asyncio
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

PROGRAMS = ("unshare", "nsenter", "setpriv", "ip", "kubectl", "podman", "runc", "conmon", "catatonit")
NETWORK_PROGRAMS = ("netavark", "aardvark-dns")
NETWORK_DIRECTORIES = ("/usr/lib/podman", "/usr/libexec/podman")
COMMAND_SECONDS = 120.0

_KINDS = ("--net", "--mount", "--pid", "--ipc", "--uts")
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_CGROUPS = Path("/sys/fs/cgroup")
_PARENT = "libpod_parent"

# runc, because crun of this age refuses; ulimits, because containers otherwise ask for more than there may be.
_CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_STORAGE_CONF = """\
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
[storage.options]
additionalimagestores = ["/mnt/images"]
"""
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'

# The first process: sees to what the namespace has of its own, says that it is ready, and then only reaps.
_INIT = f"""\
set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/images
mount --bind -o ro /var/lib/containers/storage /mnt/images
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for directory in /run /var/lib/containers /etc/containers; do mount -t tmpfs -o mode=755 tmpfs $directory; done
cat > /etc/containers/containers.conf <<'.'
{_CONTAINERS_CONF}.
cat > /etc/containers/storage.conf <<'.'
{_STORAGE_CONF}.
echo '{_POLICY}' > /etc/containers/policy.json
echo 'unqualified-search-registries = ["docker.io"]' > /etc/containers/registries.conf
ip link set lo up
echo ready
exec catatonit -P
"""


class MissingError(Exception):
    """What containers need is not here; the message says what, in one line."""


class CommandError(Exception):
    """A command inside failed; the message has its words."""


def require() -> None:
    """Raises MissingError where this machine cannot run containers."""
    if os.geteuid() != 0:
        raise MissingError("running the rendered mesh needs root: network namespaces and containers")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    missing += [
        name for name in NETWORK_PROGRAMS if not any((Path(place) / name).exists() for place in NETWORK_DIRECTORIES)
    ]
    if missing:
        raise MissingError(f"running the rendered mesh needs {', '.join(missing)}: run tests/k8s/install first")


class Namespace:
    """Runs commands inside."""

    def __init__(self, maker: "subprocess.Popen[str]", first: int) -> None:
        self._maker = maker
        self._first = first
        """The first process of the namespace, by its number outside."""

    async def run(self, *command: str, given: str = "", seconds: float = COMMAND_SECONDS) -> str:
        """What a command writes, given that input. Raises CommandError where it fails or takes too long."""
        process = await asyncio.create_subprocess_exec(
            *self._inside(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(seconds):
                output, errors = await process.communicate(given.encode())
        except TimeoutError:
            raise CommandError(f"{' '.join(command)}: not done after {seconds:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise CommandError(f"{' '.join(command)}: exit code {process.returncode}\n{errors.decode()}")
        return output.decode()

    @contextmanager
    def entered(self) -> Generator[None]:
        """Within the block this thread, and those that it starts, are in the network of the namespace."""
        with open("/proc/self/ns/net") as outside, open(f"/proc/{self._first}/ns/net") as inside:  # noqa: PTH123
            _enter_network(inside.fileno())
            try:
                yield
            finally:
                _enter_network(outside.fileno())

    def bury(self, pod: str) -> None:
        """Remove the control groups, which are the host's, of a pod that podman has removed; it is named by its long id."""
        _remove(_groups_called(pod))

    def close(self) -> None:
        """End everything inside, at once."""
        left_behind = self._control_groups()
        self._maker.kill()
        self._maker.wait()
        # The first process ends last: the kernel kills all others, and waits for them.
        while Path(f"/proc/{self._first}").exists():
            time.sleep(0.01)
        _remove(left_behind)

    def _inside(self, command: Sequence[str]) -> list[str]:
        return ["nsenter", "--target", str(self._first), *_KINDS, "--", *command]

    def _control_groups(self) -> set[Path]:
        """Those of the containers: nothing but their directories would stay behind, and those are on the host."""
        mine = Path(f"/proc/{self._first}/ns/pid").readlink()
        pods: set[str] = set()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "ns/pid").readlink() == mine:
                    pods.update(filter(None, [_group_of_pod((process / "cgroup").read_text())]))
        return {group for pod in pods for group in _groups_called(pod)}


@contextmanager
def namespace() -> Generator[Namespace]:
    """A namespace, until the end of the block. Raises MissingError."""
    # In a process group of its own: Ctrl-C is for this process, which ends the namespace after what it is in the middle of.
    maker = subprocess.Popen(
        [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            *_KINDS,
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            _INIT,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        assert maker.stdout is not None
        if maker.stdout.readline() != "ready\n":
            raise MissingError("this machine lets nobody make namespaces; see the lines above")
        children = Path(f"/proc/{maker.pid}/task/{maker.pid}/children").read_text().split()
        inside = Namespace(maker, int(children[0]))
    except BaseException:
        maker.kill()
        maker.wait()
        raise
    try:
        yield inside
    finally:
        inside.close()


def _enter_network(descriptor: int) -> None:
    # os.setns comes with Python 3.12.
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _group_of_pod(memberships: str) -> str | None:
    """The name that a pod's control groups have, from the lines of `/proc/<pid>/cgroup` of a container's guardian."""
    for line in memberships.splitlines():
        parts = PurePosixPath(line).parts
        if _PARENT in parts[:-1]:
            return parts[parts.index(_PARENT) + 1]
    return None


def _groups_called(name: str) -> set[Path]:
    """Directories of control groups of that name, of all controllers, and what is in them."""
    own = {*_CGROUPS.glob(f"{_PARENT}/{name}"), *_CGROUPS.glob(f"*/{_PARENT}/{name}")}
    return own | {inner for group in own for inner in group.rglob("*") if inner.is_dir()}


def _remove(groups: set[Path]) -> None:
    """Remove their directories, which the kernel keeps until it has buried the last process."""
    end = time.monotonic() + 5
    for group in sorted(groups, key=lambda path: len(path.parts), reverse=True):
        while group.exists():
            try:
                group.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
