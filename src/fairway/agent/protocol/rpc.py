"""Calls and services by the descriptions in the generated messages: no names, paths or types are written twice.

allocate = unary_call(channel, DEVICE_PLUGIN, "Allocate")
handler = serve(DRA_PLUGIN, {"NodePrepareResources": prepare, "NodeUnprepareResources": unprepare})
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from fairway.agent.protocol import device_plugin_pb2, dra_pb2, plugin_registration_pb2

PLUGIN_REGISTRATION: ServiceDescriptor = device_plugin_pb2.DESCRIPTOR.services_by_name["Registration"]
"""Where device plugins register."""
DEVICE_PLUGIN: ServiceDescriptor = device_plugin_pb2.DESCRIPTOR.services_by_name["DevicePlugin"]
DRA_PLUGIN: ServiceDescriptor = dra_pb2.DESCRIPTOR.services_by_name["DRAPlugin"]
DRIVER_REGISTRATION: ServiceDescriptor = plugin_registration_pb2.DESCRIPTOR.services_by_name["Registration"]
"""Where a kubelet asks a driver for its name."""

Method = Callable[[Any, Any], Awaitable[Message]]
"""Takes the request and the context of the call."""


def unary_call(channel: grpc.aio.Channel, service: ServiceDescriptor, method: str) -> Any:
    found = service.methods_by_name[method]
    return channel.unary_unary(_path(found), _bytes, _reader(found.output_type))


def stream_call(channel: grpc.aio.Channel, service: ServiceDescriptor, method: str) -> Any:
    found = service.methods_by_name[method]
    return channel.unary_stream(_path(found), _bytes, _reader(found.output_type))


def serve(service: ServiceDescriptor, methods: Mapping[str, Method]) -> grpc.GenericRpcHandler:
    """A handler for all methods of a service that answer once."""
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(method, _reader(service.methods_by_name[name].input_type), _bytes)
        for name, method in methods.items()
    }
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _bytes(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def _reader(kind: Any) -> Callable[[bytes], Message]:
    read: Callable[[bytes], Message] = GetMessageClass(kind).FromString
    return read
