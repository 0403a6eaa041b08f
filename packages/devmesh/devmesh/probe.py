"""Whether a process of the mesh is ready, asked the way a cluster asks."""

import socket
from collections.abc import Callable
from typing import Literal

import grpc
import httpx
from grpc_health.v1 import health_pb2

# A process that is starting may accept a connection and answer late; what asks polls anyway.
_ANSWER_SECONDS = 1.0


def ready(serves: Literal["grpc", "http"], port: int) -> bool:
    """Whether the process at ``port`` of this machine says that it is ready. Never raises, and answers within
    two seconds."""
    return _PROBES[serves](port) if _listens(port) else False


def _listens(port: int) -> bool:
    # A refused connection is the usual answer while a process starts, and far cheaper to learn without a channel.
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS):
            return True
    except OSError:
        return False


def _grpc_serving(port: int) -> bool:
    # A channel of its own for each question: a shared one would wait out its backoff after a refused connection.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = check(health_pb2.HealthCheckRequest(), timeout=_ANSWER_SECONDS)
        except grpc.RpcError:
            return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING


def _http_ready(port: int) -> bool:
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=_ANSWER_SECONDS, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.is_success


_PROBES: dict[Literal["grpc", "http"], Callable[[int], bool]] = {"grpc": _grpc_serving, "http": _http_ready}
