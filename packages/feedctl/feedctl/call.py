"""`feedctl call`: any method of any service, by reflection, with JSON in and out."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase as _ReflectionDatabase,
)
from grpc_status import rpc_status as _rpc_status

SECONDS = 10.0

DETAILS = error_details_pb2.DESCRIPTOR
"""Holding it makes the types of error details known, without which they cannot be shown."""

# Published without types.
ReflectionDatabase = cast("Any", _ReflectionDatabase)
rpc_status = cast("Any", _rpc_status)


class CallError(Exception):
    """The call could not be made, or was refused; the message is what to show."""


class Method(NamedTuple):
    """A method of a service, as the service describes it."""

    name: str
    request: str
    response: str


class Reflection:
    """The services of one process, which are called by what it says of itself."""

    def __init__(self, channel: grpc.Channel, name: str) -> None:
        """`name` is the process's short name, such as `post`."""
        self._channel = channel
        self._name = name
        database = ReflectionDatabase(channel)
        try:
            names: list[str] = sorted(
                service for service in database.get_services() if service.startswith(f"feed.{name}.")
            )
        except grpc.RpcError as error:
            raise CallError(_refusal(error)) from error
        if not names:
            raise CallError(f"no service of feed.{name} is served there")
        pool = DescriptorPool(database)
        services: list[ServiceDescriptor] = [pool.FindServiceByName(service) for service in names]
        self._methods = {
            method.name: method for service in services for method in cast("list[MethodDescriptor]", service.methods)
        }

    def methods(self) -> list[Method]:
        """All methods, in the order of the contract."""
        return [
            Method(method.name, method.input_type.name, method.output_type.name) for method in self._methods.values()
        ]

    def call(self, name: str, body: str) -> Iterator[str]:
        """Call a method with a JSON request; each answer as JSON. Raises CallError."""
        method = self._methods.get(name)
        if method is None:
            raise CallError(f"{self._name} has no method {name}; it has {', '.join(self._methods)}")
        try:
            request = json_format.Parse(body, GetMessageClass(method.input_type)())
        except json_format.ParseError as error:
            raise CallError(str(error)) from error
        try:
            for answer in self._answers(method, request):
                yield json_format.MessageToJson(answer, ensure_ascii=False)
        except grpc.RpcError as error:
            raise CallError(_refusal(error)) from error

    def _answers(self, method: MethodDescriptor, request: Message) -> Iterator[Any]:
        path = f"/{method.containing_service.full_name}/{method.name}"
        serialise: Any = type(request).SerializeToString
        parse = GetMessageClass(method.output_type).FromString
        channel = cast("Any", self._channel)
        if method.server_streaming:
            yield from channel.unary_stream(path, serialise, parse)(request, timeout=SECONDS)
        else:
            yield channel.unary_unary(path, serialise, parse)(request, timeout=SECONDS)


def _refusal(error: grpc.RpcError) -> str:
    call = cast("Any", error)
    status = rpc_status.from_call(call)
    details = [json_format.MessageToDict(detail) for detail in status.details] if status else []
    shown = [json.dumps(detail, ensure_ascii=False) for detail in details]
    return "\n".join([f"{call.code().name}: {call.details()}", *shown])
