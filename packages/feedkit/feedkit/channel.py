"""Channels to other services: balanced, retried within a budget, with deadline and trace passed on.

The stock client interceptors of grpc.aio make tasks and call objects of their own for each call. Instead, a channel here
hands the generated stubs multi-callables that do what is needed around the plain one: a stub is used as always, awaits
give a response, and failures are domain errors.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, cast

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from grpc_health.v1 import health_pb2
from grpc_health.v1 import health_pb2_grpc as _health_grpc

from feedkit import deadline, status, telemetry
from feedkit.errors import Unavailable
from feedkit.transport import KEEPALIVE, MAX_MESSAGE_BYTES

health_grpc = cast("Any", _health_grpc)  # published without types

CALL_SECONDS = 5.0
"""The longest that a call waits for its answer, whatever its caller's deadline."""
STREAM_SECONDS = 600.0

_RETRY = {
    "maxAttempts": 5,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


def connect(target: str, service: ServiceDescriptor, dependency: str, *, retry_also: Iterable[str] = ()) -> "Channel":
    """Open a channel to one service.

    `target` is a gRPC name; `dns:///name:port` balances over every address of a headless name. `dependency` is the
    service's short name, for errors. Methods that the contract calls idempotent are retried while the service is
    UNAVAILABLE, and so are those in `retry_also`, which the caller makes idempotent in a way that the contract cannot say.
    """
    options: list[tuple[str, Any]] = [
        ("grpc.service_config", json.dumps(_service_config(service, frozenset(retry_also)))),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # A restarted server is found again within a second, not after two minutes of doubled waiting.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1000),
        ("grpc.max_reconnect_backoff_ms", 1000),
        # Names are looked up anew when a connection ends. gRPC would do so once in half a minute, in which a rollout
        # may replace every server.
        ("grpc.dns_min_time_between_resolutions_ms", 1000),
        *KEEPALIVE,
    ]
    return Channel(grpc.aio.insecure_channel(target, options=options), dependency)


def _service_config(service: ServiceDescriptor, retry_also: frozenset[str]) -> Mapping[str, Any]:
    retried = [
        {"service": service.full_name, "method": method.name}
        for method in cast("Iterable[MethodDescriptor]", service.methods)
        if _is_idempotent(method) or method.name in retry_also
    ]
    return {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [{"name": retried, "retryPolicy": _RETRY}],
        # The budget: once a tenth of the calls fail, retries stop, so that they never multiply an overload.
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
    }


def _is_idempotent(method: MethodDescriptor) -> bool:
    return method.GetOptions().idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN


class Channel(grpc.aio.Channel):
    """What the generated stubs are made with."""

    def __init__(self, inner: grpc.aio.Channel, dependency: str) -> None:
        self._inner = inner
        self._dependency = dependency

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """A multi-callable whose calls are coroutines: `await stub.Method(request, timeout=...)`."""
        return _unary(method, cast("Any", self._inner.unary_unary(method, *args, **options)), self._dependency)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """A multi-callable whose calls are asynchronous iterators: `async for message in stub.Method(request)`."""
        return _stream(method, cast("Any", self._inner.unary_stream(method, *args, **options)), self._dependency)

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """Not used by any contract."""
        raise NotImplementedError(method)

    def stream_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """Not used by any contract."""
        raise NotImplementedError(method)

    async def __aenter__(self) -> "Channel":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Close the channel; calls under way get `grace` seconds."""
        await self._inner.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """The state of the connection."""
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait until the connection leaves a state."""
        await self._inner.wait_for_state_change(last_observed_state)

    async def require_serving(self) -> None:
        """Raise Unavailable where the service does not say that it is SERVING: a readiness check."""
        answer = await health_grpc.HealthStub(self).Check(health_pb2.HealthCheckRequest())
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            raise Unavailable.of_dependency(self._dependency, "is not ready")

    async def channel_ready(self) -> None:
        """Wait until the service can be reached."""
        await self._inner.channel_ready()


def _unary(method: str, call: Callable[..., Any], dependency: str) -> Callable[..., Any]:
    name, attributes = method[1:], _attributes(method, dependency)

    async def invoke(request: Any, *, timeout: float = CALL_SECONDS) -> Any:
        seconds = deadline.timeout_for_call(timeout)
        with telemetry.client_span(name, attributes):
            metadata: dict[str, str] = {}
            telemetry.inject(metadata)
            try:
                return await call(request, timeout=seconds, metadata=tuple(metadata.items()))
            except grpc.aio.AioRpcError as error:
                raise status.from_rpc_error(error, dependency) from None

    return invoke


def _stream(method: str, call: Callable[..., Any], dependency: str) -> Callable[..., Any]:
    name, attributes = method[1:], _attributes(method, dependency)

    async def invoke(request: Any, *, timeout: float = STREAM_SECONDS) -> AsyncIterator[Any]:
        seconds = deadline.timeout_for_call(timeout)
        # The span is not current while the consumer works on a message, or the consumer's own calls would be its children.
        with telemetry.stream_span(name, attributes) as metadata:
            stream = call(request, timeout=seconds, metadata=tuple(metadata.items()))
            try:
                async for response in stream:
                    yield response
            except grpc.aio.AioRpcError as error:
                raise status.from_rpc_error(error, dependency) from None
            finally:
                # A consumer that wants no more ends the call, which would otherwise go on until it is collected.
                stream.cancel()

    return invoke


def _attributes(method: str, dependency: str) -> dict[str, str]:
    service, _, rpc = method[1:].rpartition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": rpc, "peer.service": dependency}
