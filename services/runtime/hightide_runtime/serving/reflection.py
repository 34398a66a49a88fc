"""Reflection with the comments of the .proto files, so that `grpcurl describe` shows them."""

from functools import cache
from importlib import resources

from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection

SERVICE_NAME: str = reflection.SERVICE_NAME
#: Written by `make proto`, beside the stubs: every .proto file of Hightide with its source information.
_DESCRIPTORS = "descriptors.binpb"


class _File:
    """The part of a file's descriptor that reflection uses; protobuf's own has no comments."""

    def __init__(self, descriptor: object, commented: descriptor_pb2.FileDescriptorProto | None) -> None:
        self._descriptor = descriptor
        self._commented = commented
        self.name: str = descriptor.name  # type: ignore[attr-defined]

    @property
    def dependencies(self) -> list["_File"]:
        return [_of(each) for each in self._descriptor.dependencies]  # type: ignore[attr-defined]

    def CopyToProto(self, proto: descriptor_pb2.FileDescriptorProto) -> None:  # noqa: N802
        if self._commented is None:
            self._descriptor.CopyToProto(proto)  # type: ignore[attr-defined]
        else:
            proto.CopyFrom(self._commented)


class CommentedPool:
    """The part of the default pool that reflection uses, with comments in the files of Hightide."""

    def __init__(self) -> None:
        self._pool = descriptor_pool.Default()

    def __getattr__(self, name: str) -> object:
        return getattr(self._pool, name)

    def FindFileByName(self, name: str) -> _File:  # noqa: N802
        """The file of that name; KeyError if there is none."""
        return _of(self._pool.FindFileByName(name))

    def FindFileContainingSymbol(self, symbol: str) -> _File:  # noqa: N802
        """The file that defines a message, enum, service or method; KeyError if none does."""
        try:
            return _of(self._pool.FindFileContainingSymbol(symbol))
        except KeyError:
            # Protobuf finds services, and not the methods in them.
            service, _, method = symbol.rpartition(".")
            return _of(self._pool.FindServiceByName(service).methods_by_name[method].containing_service.file)


def _of(descriptor: object) -> _File:
    return _File(descriptor, _commented_files().get(descriptor.name))  # type: ignore[attr-defined]


@cache
def _commented_files() -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """The files of Hightide by name, read on the first call. None, if an installation lacks the file:
    reflection then works without comments."""
    try:
        content = resources.files("hightide.v1").joinpath(_DESCRIPTORS).read_bytes()
    except FileNotFoundError:
        return {}
    files = descriptor_pb2.FileDescriptorSet.FromString(content).file
    return {file.name: file for file in files}
