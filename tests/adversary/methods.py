"""Every method of every service, from the descriptors, so that a new one is attacked from its first day."""

import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import hightide.v1
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from grpc_channelz.v1 import channelz_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its service, its path on the wire, what it takes, and whether it is a stream."""

    service: str
    path: str
    request: type[Message]
    streaming: bool


def all_methods() -> list[Method]:
    """The methods of all services of hightide.v1, in order."""
    names = [module.name for module in pkgutil.iter_modules(hightide.v1.__path__)]
    files = [import_module(f"hightide.v1.{name}").DESCRIPTOR for name in names if name.endswith("_pb2")]
    return _methods_of(files)


def library_methods() -> list[Method]:
    """The methods of gRPC's own services that our servers serve beside ours: health, reflection, channelz."""
    return _methods_of([health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR, channelz_pb2.DESCRIPTOR])


def _methods_of(files: Iterable[Any]) -> list[Method]:
    found = [
        Method(
            service.full_name,
            f"/{service.full_name}/{method.name}",
            message_factory.GetMessageClass(method.input_type),
            method.client_streaming or method.server_streaming,
        )
        for file in files
        for service in file.services_by_name.values()
        for method in service.methods
    ]
    return sorted(found, key=lambda method: method.path)


# Every string is no legal name of anything, so that no request made of these can do what it says.
_IMPOSSIBLE_TEXT = "☃"
# A broker epoch, an offset: far from any that a test's cluster reaches, also with some bits flipped.
_IMPOSSIBLE_INT64 = 0x5A5A_5A5A_5A5A


# What cannot be said together with other fields.
_LEFT_OUT = frozenset({"hightide.v1.FetchRequest.from_follower"})


def plausible(message_type: type[Message]) -> Message:
    """A message with every field set: well-formed, refused only because what it names does not exist."""
    message = message_type()
    for field in message_type.DESCRIPTOR.fields:
        if field.full_name not in _LEFT_OUT:
            _fill(message, field)
    return message


def _fill(message: Message, field: Any) -> None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if field.message_type.GetOptions().map_entry:
            getattr(message, field.name)[_IMPOSSIBLE_TEXT] = _IMPOSSIBLE_TEXT
            return
        nested = plausible(message_factory.GetMessageClass(field.message_type))
        target = getattr(message, field.name)
        if field.is_repeated:
            target.add().CopyFrom(nested)
        else:
            target.CopyFrom(nested)
        return
    value: object = 1
    if field.type == FieldDescriptor.TYPE_STRING:
        value = _IMPOSSIBLE_TEXT
    elif field.type == FieldDescriptor.TYPE_BYTES:
        value = b"\x01" * 16
    elif field.type == FieldDescriptor.TYPE_BOOL:
        value = True
    elif field.type == FieldDescriptor.TYPE_INT64:
        value = _IMPOSSIBLE_INT64
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


# Bytes that are no protobuf message of any type.
MALFORMED: dict[str, bytes] = {
    "field number 0": b"\x00\x01",
    "wire type 7": b"\x0f",
    "a varint that never ends": b"\xff" * 64,
    "a length beyond the end": b"\x0a\x7f",
    "a length of 4 GiB": b"\x0a\xff\xff\xff\xff\x0f" + b"x" * 100,
    "an end of a group that never began": b"\x0c",
    "half a fixed64": b"\x09\x01\x02",
    "text": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
}
