"""Services that only tests have. No server serves a method that no .proto file gives a rule."""

from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2
from hightide.v1 import access_pb2

OPEN = access_pb2.AccessRule(external=True)
"""The rule of a method that both listeners serve."""


def declare(service: str, method: str, rule: access_pb2.AccessRule | None = OPEN) -> None:
    """Declare a method, by the full name of its service, as a .proto file would. None: without a rule."""
    package, _, name = service.rpartition(".")
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{service}.proto",
        package=package,
        syntax="proto3",
        dependency=[empty_pb2.DESCRIPTOR.name, access_pb2.DESCRIPTOR.name],
    )
    empty = "." + empty_pb2.Empty.DESCRIPTOR.full_name
    declared = file.service.add(name=name).method.add(name=method, input_type=empty, output_type=empty)
    if rule is not None:
        declared.options.Extensions[access_pb2.access].CopyFrom(rule)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
