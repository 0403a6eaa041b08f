"""What every RPC of every server goes through: trace, error mapping, deadline, request rules, in this order.

One interceptor does all four, and wraps each method once, not each call: an interceptor's own frames are a good part of
what a call costs in Python.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from feedkit import deadline, status, telemetry, validation
from feedkit.errors import DeadlineExceeded, FeedError, Internal

logger = logging.getLogger(__name__)

Context: TypeAlias = Any
"""A `grpc.aio.ServicerContext`; its published types lack `abort_with_status`."""
# Quoted, because the class is generic for the type checker only.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
UnaryBehaviour: TypeAlias = Callable[[Message, Context], Awaitable[Message]]
StreamBehaviour: TypeAlias = Callable[[Message, Context], AsyncIterator[Message]]

INFRASTRUCTURE = ("/grpc.health.", "/grpc.reflection.")
"""Services of gRPC itself, which are neither traced nor capped: watching health and reflection are open-ended."""


class ServerInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every method of the product's own services."""

    def __init__(self, *, unary_seconds: float, stream_seconds: float) -> None:
        """The deadlines, in seconds, of calls that come with none or with a longer one."""
        self._unary_seconds = unary_seconds
        self._stream_seconds = stream_seconds
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The wrapped handler of the method being called."""
        method = handler_call_details.method
        if (wrapped := self._wrapped.get(method)) is not None:
            return wrapped
        handler: Handler | None = await continuation(handler_call_details)
        if handler is None or method.startswith(INFRASTRUCTURE):
            return handler
        self._wrapped[method] = wrapped = self._wrap(method, handler)
        return wrapped

    def _wrap(self, method: str, handler: Handler) -> Handler:
        deserialise = _tolerant(handler.request_deserializer)
        if handler.unary_unary:
            unary = _serve_unary(method, cast("Any", handler.unary_unary), self._unary_seconds)
            return grpc.unary_unary_rpc_method_handler(cast("Any", unary), deserialise, handler.response_serializer)
        if handler.unary_stream:
            stream = _serve_stream(method, cast("Any", handler.unary_stream), self._stream_seconds)
            return grpc.unary_stream_rpc_method_handler(cast("Any", stream), deserialise, handler.response_serializer)
        raise NotImplementedError(f"{method}: client streams have no wrapper yet")


def _tolerant(deserialise: Any) -> Any:
    # gRPC answers INTERNAL for bytes that do not decode; they are the caller's mistake.
    def tolerant(data: bytes) -> Any:
        try:
            return deserialise(data)
        except DecodeError as error:
            return validation.Undecodable(error)

    return tolerant


def _serve_unary(method: str, behaviour: UnaryBehaviour, longest: float) -> UnaryBehaviour:
    name, attributes = method[1:], _attributes(method)

    async def serve(request: Message, context: Context) -> Message:
        parent = telemetry.extract(telemetry.carrier_of(context.invocation_metadata()))
        seconds = min(context.time_remaining() or longest, longest)
        with telemetry.server_span(name, parent, attributes):
            try:
                validation.check(request)
                with deadline.within(seconds):
                    async with asyncio.timeout(seconds):
                        return await behaviour(request, context)
            except (asyncio.CancelledError, grpc.aio.AbortError):
                raise
            except Exception as error:
                await _abort(context, method, error)

    return serve


def _serve_stream(method: str, behaviour: StreamBehaviour, longest: float) -> StreamBehaviour:
    name, attributes = method[1:], _attributes(method)

    async def serve(request: Message, context: Context) -> AsyncIterator[Message]:
        parent = telemetry.extract(telemetry.carrier_of(context.invocation_metadata()))
        seconds = min(context.time_remaining() or longest, longest)
        with telemetry.server_span(name, parent, attributes):
            try:
                validation.check(request)
                with deadline.within(seconds):
                    async with asyncio.timeout(seconds):
                        async for message in behaviour(request, context):
                            yield message
            except (asyncio.CancelledError, grpc.aio.AbortError):
                raise
            except Exception as error:
                await _abort(context, method, error)

    return serve


def _attributes(method: str) -> dict[str, str]:
    service, _, rpc = method[1:].rpartition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": rpc}


async def _abort(context: Context, method: str, error: Exception) -> NoReturn:
    if isinstance(error, TimeoutError):
        error = DeadlineExceeded()
    if not isinstance(error, FeedError):
        logger.exception("unforeseen error in %s", method)
        error = Internal(trace_id=telemetry.trace_id())
    elif isinstance(error, Internal):
        logger.error("%s: %s", method, error, exc_info=error)
        error = Internal(trace_id=telemetry.trace_id())
    await context.abort_with_status(status.to_status(error))
    raise AssertionError("abort_with_status returned")
