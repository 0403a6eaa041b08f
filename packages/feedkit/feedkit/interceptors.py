"""What every RPC of every server goes through: trace, measure, error mapping, load shedding, deadline, request rules.

Methods are wrapped once, when their service is added, instead of each call by gRPC's interceptors, whose own frames would
be a good part of what a call costs in Python.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from opentelemetry import metrics
from opentelemetry.trace import Span

from feedkit import deadline, status, telemetry, validation
from feedkit.errors import DeadlineExceeded, FeedError, Internal, Overloaded

logger = logging.getLogger(__name__)

Context: TypeAlias = Any
"""A `grpc.aio.ServicerContext`; its published types lack `abort_with_status`."""
# Quoted, because the class is generic for the type checker only.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
UnaryBehaviour: TypeAlias = Callable[[Message, Context], Awaitable[Message]]
StreamBehaviour: TypeAlias = Callable[[Message, Context], AsyncGenerator[Message]]
Serve: TypeAlias = Callable[[Message, Context], Awaitable[Any]]
"""A method as gRPC calls it: it returns the answer, or has written all of them."""

RETRY_AFTER_MS = 1000
_OUR_FAULT = frozenset({"DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE"})
"""Codes that make a server's span an error; the others are answers (OpenTelemetry's convention for gRPC)."""


class Registrar(grpc.aio.Server):
    """Where servicers are added to a server: each of their methods is wrapped.

    What is added to the server itself stays as it is. gRPC's own services, health and reflection, are open-ended, and a
    busy process that refused to tell its health would be killed for being busy.
    """

    def __init__(
        self, inner: grpc.aio.Server, *, unary_seconds: float, stream_seconds: float, concurrent_calls: int
    ) -> None:
        """The deadlines, in seconds, of calls that come with none or with a longer one; how many calls run at once."""
        self._inner = inner
        self._unary_seconds = unary_seconds
        self._stream_seconds = stream_seconds
        self._places = _Places(concurrent_calls)
        self._durations = _durations()

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add services; this is what the generated functions call."""
        self._inner.add_generic_rpc_handlers([_WrappedService(handler, self._wrap) for handler in generic_rpc_handlers])

    def add_insecure_port(self, address: str) -> int:
        """Listen on a port without TLS."""
        return self._inner.add_insecure_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Listen on a port with TLS."""
        return self._inner.add_secure_port(address, server_credentials)

    async def start(self) -> None:
        """Start the server."""
        await self._inner.start()

    async def stop(self, grace: float | None) -> None:
        """Stop the server; calls under way get `grace` seconds."""
        await self._inner.stop(grace)

    async def wait_for_termination(self, timeout: float | None = None) -> bool:
        """Wait until the server has stopped."""
        return await self._inner.wait_for_termination(timeout)

    def _wrap(self, method: str, handler: Handler) -> Handler:
        deserialise = _tolerant(handler.request_deserializer)
        if handler.unary_unary:
            unary: Any = self._measured(method, self._serve_unary(method, cast("Any", handler.unary_unary)))
            return grpc.unary_unary_rpc_method_handler(unary, deserialise, handler.response_serializer)
        if handler.unary_stream:
            stream: Any = self._measured(method, self._serve_stream(method, cast("Any", handler.unary_stream)))
            return grpc.unary_stream_rpc_method_handler(stream, deserialise, handler.response_serializer)
        raise NotImplementedError(f"{method}: no contract streams from its caller")

    def _measured(self, method: str, serve: Serve) -> Serve:
        return serve if self._durations is None else _measured(method, serve, self._durations)

    def _serve_unary(self, method: str, behaviour: UnaryBehaviour) -> Serve:
        name, attributes, longest = method[1:], _attributes(method), self._unary_seconds

        async def serve(request: Message, context: Context) -> Message:
            parent = telemetry.caller(context.invocation_metadata())
            with telemetry.server_span(name, parent, attributes) as span:
                try:
                    left, cap = _time(context, longest)
                    with self._places:
                        validation.check(request)
                        deadline.begin(left)
                        if cap is None:
                            return await behaviour(request, context)
                        async with asyncio.timeout(cap):
                            return await behaviour(request, context)
                except BaseException as error:
                    refusal = _refusal(method, error, span, context)
            return await context.abort_with_status(refusal)

        return serve

    def _serve_stream(self, method: str, behaviour: StreamBehaviour) -> Serve:
        name, attributes, longest = method[1:], _attributes(method), self._stream_seconds

        # A coroutine that writes, not a generator: when the caller goes away between two messages, a generator would be
        # left to the garbage collector, which closes it in another context, long after.
        async def serve(request: Message, context: Context) -> None:
            parent = telemetry.caller(context.invocation_metadata())
            with telemetry.server_span(name, parent, attributes) as span:
                try:
                    left, cap = _time(context, longest)
                    with self._places:
                        validation.check(request)
                        deadline.begin(left)
                        messages = behaviour(request, context)
                        async with asyncio.timeout(cap), aclosing(messages):
                            async for message in messages:
                                await _write(context, message)
                    return
                except BaseException as error:
                    refusal = _refusal(method, error, span, context)
            await context.abort_with_status(refusal)

        return serve


class _WrappedService(grpc.GenericRpcHandler):
    """A service whose methods are wrapped when first called."""

    def __init__(self, inner: grpc.GenericRpcHandler, wrap: Callable[[str, Handler], Handler]) -> None:
        self._inner = inner
        self._wrap = wrap
        self._wrapped: dict[str, Handler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "Handler | None":
        """The handler of the method being called; None for one of another service."""
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None and (handler := self._inner.service(handler_call_details)) is not None:
            wrapped = self._wrapped[method] = self._wrap(method, handler)
        return wrapped


class _Places:
    """Room for some calls at once; a plain class, because a generator's frame would cost each call a microsecond."""

    def __init__(self, free: int) -> None:
        self._free = free

    def __enter__(self) -> None:
        if self._free <= 0:
            raise Overloaded("OVERLOADED", "too many calls at once", retry_after_ms=RETRY_AFTER_MS)
        self._free -= 1

    def __exit__(self, *exc_info: object) -> None:
        self._free += 1


def _durations() -> metrics.Histogram | None:
    """None where nobody wants them, so that no call is timed for nothing."""
    if not telemetry.is_measuring():
        return None
    return telemetry.durations("rpc.server.call.duration", description="How long calls took that were served.")


def _measured(method: str, serve: Serve, durations: metrics.Histogram) -> Serve:
    # OpenTelemetry's conventions for RPC, of which the spans have older names.
    called = {"rpc.system.name": "grpc", "rpc.method": method[1:]}
    answered = {**called, "rpc.response.status_code": grpc.StatusCode.OK.name}

    async def measured(request: Message, context: Context) -> Any:
        began = time.perf_counter()
        try:
            answer = await serve(request, context)
        except BaseException as error:
            ended = {**called, "rpc.response.status_code": _code(error, context).name}
            durations.record(time.perf_counter() - began, ended)
            raise
        durations.record(time.perf_counter() - began, answered)
        return answer

    return measured


def _code(error: BaseException, context: Context) -> grpc.StatusCode:
    """How a call ended that was not answered."""
    if isinstance(error, grpc.aio.AbortError):
        return context.code()
    if isinstance(error, asyncio.CancelledError):
        return grpc.StatusCode.DEADLINE_EXCEEDED if context.time_remaining() == 0 else grpc.StatusCode.CANCELLED
    return grpc.StatusCode.UNKNOWN


async def _write(context: Context, message: Message) -> None:
    try:
        await context.write(message)
    except grpc.aio.InternalError:
        # When the caller goes away while a message waits to be sent, sending fails a moment before the call is cancelled.
        await asyncio.sleep(1)
        raise


def _tolerant(deserialise: Any) -> Any:
    # gRPC answers INTERNAL for bytes that do not decode; they are the caller's mistake.
    def tolerant(data: bytes) -> Any:
        try:
            return deserialise(data)
        except DecodeError as error:
            return validation.Undecodable(error)

    return tolerant


def _time(context: Context, longest: float) -> tuple[float, float | None]:
    """How many seconds a call may take, and after how many to end it, where gRPC does not do that by itself."""
    remaining: float | None = context.time_remaining()
    if remaining is None or remaining > longest:
        return longest, longest
    return remaining, None


def _attributes(method: str) -> dict[str, str]:
    service, _, rpc = method[1:].rpartition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": rpc}


def _refusal(method: str, error: BaseException, span: Span, context: Context) -> grpc.Status:
    """The status to refuse a call with; what is no refusal is raised again."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            if context.time_remaining() == 0:
                telemetry.fail(span, DeadlineExceeded())
            raise error
        # Not this call was cancelled but something that it waited for. gRPC would take it for the former and send nothing.
    elif isinstance(error, grpc.aio.AbortError) or not isinstance(error, Exception):
        raise error
    elif isinstance(error, TimeoutError):
        error = DeadlineExceeded()
    if not isinstance(error, FeedError):
        logger.error("unforeseen error in %s", method, exc_info=error)
    elif isinstance(error, Internal):
        logger.error("%s: %s", method, error, exc_info=error)
    if isinstance(error, Internal) or not isinstance(error, FeedError):
        telemetry.fail(span, error)
        error = Internal(trace_id=telemetry.trace_id())
    elif error.code.name in _OUR_FAULT:
        telemetry.fail(span, error)
    span.set_attribute("rpc.grpc.status_code", error.code.value)
    return status.to_status(error)
