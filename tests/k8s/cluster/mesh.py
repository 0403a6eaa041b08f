"""The whole rendered tree, running."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from feedctl.targets import Targets

from tests.k8s.cluster.deployment import Deployment
from tests.k8s.cluster.namespace import CommandError, Namespace
from tests.k8s.cluster.pods import Pods
from tests.k8s.cluster.rendered import Tree

REPLICAS = 2
BACKENDS = ("postgres", "redis", "kafka")
LAST_LINES = 40


class RunningMesh:
    """Its Deployments, by name, and where they are."""

    def __init__(self, inside: Namespace, tree: Tree) -> None:
        pods = Pods(inside)
        self.tree = tree
        self.deployments = {
            name: Deployment(pods, manifest, tree.config_maps) for name, manifest in tree.deployments.items()
        }
        self.ours = [deployment for name, deployment in self.deployments.items() if name not in BACKENDS]
        """The Deployments of our own processes."""
        self._pods = pods

    async def start(self) -> None:
        """Start one pod of each backend and two of each of our own processes, and return when all are ready."""
        await self._pods.prepare(self.tree.secrets)
        async with asyncio.TaskGroup() as backends:
            for name in BACKENDS:
                backends.create_task(self.deployments[name].scale_up(1))
        async with asyncio.TaskGroup() as ours:
            for deployment in self.ours:
                ours.create_task(deployment.scale_up(REPLICAS))

    @property
    def gateways(self) -> list[str]:
        """The base URLs over which an ingress balances."""
        return [f"http://{pod.address}:8080" for pod in self.deployments["gateway"].serving]

    @property
    def targets(self) -> Targets:
        """Where `feedctl` finds everything, by addresses, since names are for those inside."""
        secret = {key: base64.b64decode(value).decode() for key, value in self.tree.secrets[0]["data"].items()}
        return Targets(
            gateway=self.gateways[0],
            grpc={name: self._grpc(name) for name in ("post", "graph", "fanout", "timeline", "hydrate")},
            postgres={name: self._dsn(secret[f"{name}-dsn"]) for name in ("post", "graph")},
            operator_token=secret["operator-token"],
        )

    def _grpc(self, name: str) -> str:
        return "ipv4:" + ",".join(f"{pod.address}:50051" for pod in self.deployments[name].serving)

    def _dsn(self, dsn: str) -> str:
        host = urlsplit(dsn).hostname
        assert host in self.deployments, dsn
        return dsn.replace(f"@{host}:", f"@{self.deployments[host].running[0].address}:")

    async def last_words(self) -> str:
        """The end of every pod's log."""
        words: list[str] = []
        for pod in [pod for deployment in self.deployments.values() for pod in deployment.running]:
            try:
                lines = (await pod.log()).splitlines()[-LAST_LINES:]
            except CommandError as error:
                lines = [str(error)]
            words += [f"--- {pod.name}", *lines]
        return "\n".join(words)

    @asynccontextmanager
    async def explained(self) -> AsyncGenerator[None]:
        """Where the block fails, print what the pods have to say."""
        try:
            yield
        except Exception:
            print(await self.last_words())
            raise
