"""Probes, asked as a kubelet asks them."""

import asyncio
from typing import Any, cast

import grpc
import grpc.aio
import httpx
from grpc_health.v1 import health_pb2
from grpc_health.v1 import health_pb2_grpc as _health_grpc

from tests.k8s.cluster.namespace import CommandError
from tests.k8s.cluster.pods import Pod
from tests.k8s.cluster.rendered import Manifest

health_grpc = cast("Any", _health_grpc)  # published without types

ANSWER_SECONDS = 2.0
# A channel of its own for each question: a shared one would wait out its backoff after a refused connection.
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]


async def passes(probe: Manifest, pod: Pod) -> bool:
    """Whether a pod's main container passes a probe."""
    if asked := probe.get("grpc"):
        return await _serves(f"{pod.address}:{asked['port']}", asked.get("service", ""))
    if asked := probe.get("httpGet"):
        return await _is_ok(f"http://{pod.address}:{asked['port']}{asked['path']}")
    if asked := probe.get("tcpSocket"):
        return await _accepts(pod.address, asked["port"])
    return await _succeeds(pod, probe["exec"]["command"])


async def _serves(address: str, service: str) -> bool:
    async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
        question = health_pb2.HealthCheckRequest(service=service)
        try:
            answer = await health_grpc.HealthStub(channel).Check(question, timeout=ANSWER_SECONDS)
        except grpc.aio.AioRpcError:
            return False
    return answer.status == health_pb2.HealthCheckResponse.SERVING


async def _is_ok(url: str) -> bool:
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False) as client:
        try:
            return (await client.get(url)).is_success
        except httpx.TransportError:
            return False


async def _accepts(address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _succeeds(pod: Pod, command: list[str]) -> bool:
    try:
        await pod.run(*command)
    except CommandError:
        return False
    return True
