"""Pods, run by podman within a namespace."""

import asyncio
import json
import re
from collections.abc import Sequence
from copy import deepcopy
from ipaddress import IPv4Network
from typing import Any

from tests.k8s.cluster.namespace import CommandError, Namespace
from tests.k8s.cluster.rendered import Manifest, as_yaml

NETWORK = "feed"
STARTS_AT_ONCE = 4
SUBNET = IPv4Network("10.89.0.0/24")


class Pod:
    """A pod that was started. Its main container may end, and be started again at the same address."""

    def __init__(self, inside: Namespace, manifest: Manifest, address: str) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.address = address
        """Its IP address."""
        self.main: Manifest = manifest["spec"]["containers"][0]
        self.grace_seconds: float = manifest["spec"]["terminationGracePeriodSeconds"]
        self._inside = inside
        self._container = f"{self.name}-{self.main['name']}"

    async def run(self, *command: str) -> str:
        """What a command in its main container writes. Raises CommandError where it fails."""
        return await self._inside.run("podman", "exec", self._container, *command)

    async def kill(self, signal: str = "KILL") -> None:
        """Send its main container a signal."""
        await self._inside.run("podman", "kill", "--signal", signal, self._container)

    async def start(self) -> None:
        """Start its main container again."""
        await self._inside.run("podman", "start", self._container)

    async def ended(self, seconds: float) -> int:
        """The exit code of its main container, once it has ended. Raises CommandError where it has not after so long."""
        return int(await self._inside.run("podman", "wait", self._container, seconds=seconds))

    async def state(self) -> Manifest:
        """What podman knows of its main container."""
        return json.loads(await self._inside.run("podman", "inspect", self._container))[0]

    async def log(self) -> str:
        """What its main container has written, all its lives together."""
        return await self._inside.run("sh", "-c", 'podman logs "$0" 2>&1', self._container)

    async def remove(self) -> None:
        """Remove it, and all that it had."""
        await _remove(self._inside, self.name)


class Pods:
    """Starts pods on a network on which they find each other by the names of Services."""

    def __init__(self, inside: Namespace) -> None:
        self._inside = inside
        self._gate = asyncio.Semaphore(STARTS_AT_ONCE)
        # The first few are the bridge's.
        self._addresses = iter([*SUBNET.hosts()][9:])

    async def prepare(self, secrets: Sequence[Manifest]) -> None:
        """Make the network, and the secrets."""
        await self._inside.run("podman", "network", "create", "--subnet", str(SUBNET), NETWORK)
        for secret in secrets:
            # As podman 4.3 reads it for an environment variable, which is not how it would write one from a manifest.
            data: dict[str, Any] = {key: re.sub(r"\s", "", value) for key, value in secret["data"].items()}
            name = secret["metadata"]["name"]
            await self._inside.run("podman", "secret", "create", name, "-", given=json.dumps(data))

    async def play(self, manifest: Manifest, config_maps: Sequence[Manifest], service: str) -> Pod:
        """Start a pod. Its address is one of those that the name of the service has, as those of a headless Service.

        Raises CommandError where it does not start, which is also when one of its init containers fails.
        """
        name: str = manifest["metadata"]["name"]
        # An address that it keeps when its container is started again, as in a cluster.
        address = str(next(self._addresses))
        play = ["podman", "play", "kube", "--network", f"{NETWORK}:alias={service},ip={address}", "-"]
        try:
            async with self._gate:
                await self._inside.run(*play, given=as_yaml([*config_maps, _with_own_volumes(manifest)]))
        except CommandError:
            if await self._inside.run("podman", "pod", "ls", "--quiet", "--filter", f"name=^{name}$"):
                await _remove(self._inside, name)
            raise
        return Pod(self._inside, manifest, address)


async def _remove(inside: Namespace, pod: str) -> None:
    long_id = await inside.run("podman", "pod", "inspect", "--format", "{{.ID}}", pod)
    await inside.run("podman", "pod", "rm", "--force", "--time", "0", pod)
    inside.bury(long_id.strip())


def _with_own_volumes(manifest: Manifest) -> Manifest:
    """The pod with names of its own for its emptyDirs: podman 4.3 has one of a name, which pods then share."""
    pod: Any = deepcopy(manifest)
    spec = pod["spec"]
    own = {volume["name"] for volume in spec.get("volumes", []) if "emptyDir" in volume}
    mounts = [mount for container in spec["containers"] for mount in container.get("volumeMounts", [])]
    for named in [*spec.get("volumes", []), *mounts]:
        if named["name"] in own:
            named["name"] = f"{pod['metadata']['name']}-{named['name']}"
    return pod
