"""What the controllers of a cluster and its kubelets do for a Deployment: replicas, probes, restarts and rollouts."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.k8s.cluster import probes
from tests.k8s.cluster.namespace import CommandError
from tests.k8s.cluster.pods import Pod, Pods
from tests.k8s.cluster.rendered import Manifest, pod_of

START_SECONDS = 300.0
"""How long a pod may take until it is ready, its init containers and their repetitions included."""
POLL_SECONDS = 0.2
NEWS_SECONDS = 1.0
"""How long those who are balanced over the pods of a Service do not know yet that one of these is to stop, or has died: in
a cluster that news takes its time, and is on its way at the same time as SIGTERM."""


@dataclass(frozen=True)
class Ended:
    """How the main container of a pod ended that was asked to."""

    pod: str
    exit_code: int
    seconds: float
    """From SIGTERM on."""
    log: str


class Deployment:
    """Pods of one template."""

    def __init__(self, pods: Pods, manifest: Manifest, config_maps: Sequence[Manifest]) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.running: list[Pod] = []
        """The pods, without those that are asked to end."""
        self.serving: list[Pod] = []
        """The pods over which a Service balances: those that are ready, as far as the news has got."""
        self._pods = pods
        self._manifest = manifest
        self._config_maps = config_maps
        self._made = 0

    async def scale_up(self, replicas: int) -> None:
        """Start so many more pods, and return when all are ready."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(replicas):
                tasks.create_task(self._start())

    async def replace(self) -> list[Ended]:
        """Replace every pod: a new one is ready before an old one is asked to end, and there is one too many at most.

        As in a cluster, an old pod that is ending does not hold up the next new one.
        """
        async with asyncio.TaskGroup() as tasks:
            endings: list[asyncio.Task[Ended]] = []
            for old in [*self.running]:
                await self._start()
                endings.append(tasks.create_task(self.end(old)))
        return [ending.result() for ending in endings]

    async def end(self, pod: Pod) -> Ended:
        """Ask a pod to end, and remove it. Raises CommandError where it does not end within its grace."""
        self.running.remove(pod)
        began = time.monotonic()
        await pod.kill("TERM")
        await asyncio.sleep(NEWS_SECONDS)
        self.serving.remove(pod)
        exit_code = await pod.ended(pod.grace_seconds - NEWS_SECONDS)
        seconds = time.monotonic() - began
        ended = Ended(pod.name, exit_code, seconds, await pod.log())
        await pod.remove()
        return ended

    async def crash(self, pod: Pod) -> None:
        """Kill the main container of a pod, and start it again as a kubelet does; return when it is ready."""
        await pod.kill()
        await asyncio.sleep(NEWS_SECONDS)
        self.serving.remove(pod)
        await pod.ended(POLL_SECONDS * 50)
        await pod.start()
        await self._until_ready(pod, time.monotonic() + START_SECONDS)

    async def _start(self) -> None:
        self._made += 1
        deadline = time.monotonic() + START_SECONDS
        pod = await self._played(pod_of(self._manifest, f"{self.name}-{self._made}"), deadline)
        self.running.append(pod)
        await self._until_ready(pod, deadline)

    async def _played(self, manifest: Manifest, deadline: float) -> Pod:
        """Init containers that fail are run again: what they need may only be on its way."""
        while True:
            try:
                return await self._pods.play(manifest, self._config_maps, self.name)
            except CommandError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(POLL_SECONDS)

    async def _until_ready(self, pod: Pod, deadline: float) -> None:
        for name in ("startupProbe", "readinessProbe"):
            while not await _passes(pod, name):
                state = (await pod.state())["State"]
                if time.monotonic() > deadline or state["Status"] == "exited":
                    raise CommandError(f"{pod.name} ({state['Status']}) does not pass its {name}\n{await pod.log()}")
                await asyncio.sleep(POLL_SECONDS)
        self.serving.append(pod)


async def _passes(pod: Pod, probe: str) -> bool:
    """Whether it passes one of its probes; polls for a while, because the question whether it lives at all is dear."""
    if probe not in pod.main:
        return True
    for _ in range(10):
        if await probes.passes(pod.main[probe], pod):
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False
