"""A server's description of its own services: gRPC server reflection, with deadlines and bounds.

The answers come from another process, so their number and size are bounded, and descriptors that do not fit
together are an error of the server, reported as one sentence.
"""

from collections.abc import Iterator
from typing import Any, Final

import click
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

FILES_MAX: Final = 500
_NESTING_MAX: Final = 50


class ReflectionError(click.ClickException):
    """The server does not describe the service, or its description cannot be read."""


class ReflectedServer:
    """The services of one server, fetched on demand."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        self._address = address
        self._timeout_s = timeout_s
        self._files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        self._pool = descriptor_pool.DescriptorPool()
        self._in_pool: set[str] = set()

    def services(self) -> list[str]:
        """The full names of all services. Raises grpc.RpcError, ReflectionError."""
        answer = self._ask(reflection_pb2.ServerReflectionRequest(list_services=""))
        return sorted(each.name for each in answer.list_services_response.service)

    def pool_with(self, symbol: str) -> descriptor_pool.DescriptorPool:
        """A pool that has this symbol and all others that it refers to. Raises grpc.RpcError,
        ReflectionError."""
        self._take(self._ask(reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)))
        for name in list(self._files):
            self._load(name, 0)
        return self._pool

    def files(self) -> Iterator[descriptor_pb2.FileDescriptorProto]:
        """All files that were fetched so far, with comments if the server has them."""
        yield from self._files.values()

    def _take(self, answer: reflection_pb2.ServerReflectionResponse) -> None:
        for text in answer.file_descriptor_response.file_descriptor_proto:
            try:
                file = descriptor_pb2.FileDescriptorProto.FromString(text)
            except DecodeError as error:
                raise self._unreadable(error) from error
            if len(self._files) >= FILES_MAX:
                raise ReflectionError(f"{self._address} has more than {FILES_MAX} files; that is too many")
            self._files.setdefault(file.name, file)

    def _load(self, name: str, depth: int) -> None:
        """Put a file into the pool, after the files that it imports."""
        if name in self._in_pool:
            return
        if depth > _NESTING_MAX:
            raise ReflectionError(f"{self._address} has files that import each other too deeply")
        self._in_pool.add(name)
        if name not in self._files:
            self._take(self._ask(reflection_pb2.ServerReflectionRequest(file_by_filename=name)))
        file = self._files.get(name)
        if file is None:
            raise ReflectionError(
                f"{self._address} does not describe the file {name}, which other files import"
            )
        for each in file.dependency:
            self._load(each, depth + 1)
        try:
            self._pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:
            raise self._unreadable(error) from error

    def _ask(
        self, request: reflection_pb2.ServerReflectionRequest
    ) -> reflection_pb2.ServerReflectionResponse:
        for answer in self._answers(request):
            if answer.WhichOneof("message_response") == "error_response":
                asked = request.file_containing_symbol or request.file_by_filename or "its services"
                step = f"`hightide rpc ls {self._address}` lists its services"
                raise ReflectionError(f"{self._address} does not know {asked}; {step}")
            return answer
        raise ReflectionError(f"{self._address} ended the reflection call without an answer")

    def _answers(
        self, request: reflection_pb2.ServerReflectionRequest
    ) -> Iterator[reflection_pb2.ServerReflectionResponse]:
        try:
            yield from self._stub.ServerReflectionInfo(iter([request]), timeout=self._timeout_s)
        except grpc.RpcError as error:
            if _status_of(error) is grpc.StatusCode.UNIMPLEMENTED:
                raise ReflectionError(
                    f"{self._address} serves no reflection, as external listeners do not by default; name an "
                    "internal listener, or start the server with --external-introspection"
                ) from error
            raise

    def _unreadable(self, error: Exception) -> ReflectionError:
        return ReflectionError(
            f"the description that {self._address} gives of its services cannot be read: {error}"
        )


def _status_of(error: Any) -> grpc.StatusCode | None:
    return error.code() if isinstance(error, grpc.Call) else None
