"""The requests of ZooKeeper's wire protocol that kazoo lacks or makes slow: multi, multiRead and addWatch.

kazoo sends anything with `type`, `serialize` and `deserialize`. Its own Transaction costs some 10 us an
operation and *returns* exceptions in the list of results; it has no multiRead (opcode 22) and no addWatch
(opcode 106), both of ZooKeeper 3.6 and later.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, assert_never

from hightide_runtime.zookeeper.acls import OPEN_ACL, encode_acl
from hightide_runtime.zookeeper.operations import Check, Create, Delete, Operation, SetData

_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_END = _HEADER.pack(-1, 1, -1)

_CREATE, _DELETE, _GET_DATA, _SET_DATA, _GET_CHILDREN, _CHECK, _ERROR = 1, 2, 4, 5, 8, 13, -1
_CREATE_HEADER = _HEADER.pack(_CREATE, 0, -1)
_DELETE_HEADER = _HEADER.pack(_DELETE, 0, -1)
_GET_DATA_HEADER = _HEADER.pack(_GET_DATA, 0, -1)
_SET_DATA_HEADER = _HEADER.pack(_SET_DATA, 0, -1)
_GET_CHILDREN_HEADER = _HEADER.pack(_GET_CHILDREN, 0, -1)
_CHECK_HEADER = _HEADER.pack(_CHECK, 0, -1)

_EPHEMERAL = 1
_SEQUENTIAL = 2
_PERSISTENT_RECURSIVE = 1

#: Error numbers inside a multi that say only "another operation failed".
ROLLED_BACK = 0
RUNTIME_INCONSISTENCY = -2


@dataclass(frozen=True, slots=True)
class OperationFailed:
    """An operation of a multi (or a read of a multiRead) that failed, with ZooKeeper's error number."""

    error: int


@dataclass(frozen=True, slots=True)
class MultiRequest:
    """A multi. Its response has one entry for each operation: the version after it, or OperationFailed."""

    operations: Sequence[Operation]
    chroot: str = ""
    encoded_acl: bytes = encode_acl(OPEN_ACL)
    """The ACL of what is created (`acls.encode_acl`)."""
    type: ClassVar[int] = 14

    def serialize(self) -> bytes:
        """The body of the request; called on kazoo's connection thread."""
        parts: list[bytes] = []
        for operation in self.operations:
            path = _string(self.chroot + operation.path)
            match operation:
                case SetData(data=data, version=version):
                    parts += (_SET_DATA_HEADER, path, _INT.pack(len(data)), data, _INT.pack(version))
                case Check(version=version):
                    parts += (_CHECK_HEADER, path, _INT.pack(version))
                case Create(data=data, ephemeral=ephemeral, sequential=sequential):
                    flags = _INT.pack(_EPHEMERAL * ephemeral + _SEQUENTIAL * sequential)
                    parts += (_CREATE_HEADER, path, _INT.pack(len(data)), data, self.encoded_acl, flags)
                case Delete(version=version):
                    parts += (_DELETE_HEADER, path, _INT.pack(version))
                case _:
                    assert_never(operation)
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[int | OperationFailed]:
        """The results; called on kazoo's connection thread."""
        results: list[int | OperationFailed] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                assert len(results) == len(self.operations), "ZooKeeper answers each operation of a multi"
                return results
            if kind == _SET_DATA:
                results.append(_STAT.unpack_from(buffer, offset)[4])
                offset += _STAT.size
            elif kind == _CREATE:
                offset += _INT.size + max(0, _INT.unpack_from(buffer, offset)[0])
                results.append(0)
            elif kind == _CHECK:
                checked = self.operations[len(results)]
                assert isinstance(checked, Check)
                results.append(checked.version)
            elif kind == _DELETE:
                results.append(-1)
            else:
                results.append(OperationFailed(_INT.unpack_from(buffer, offset)[0]))
                offset += _INT.size


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Shows `user:password` for the scheme `digest`. kazoo's own request has the password in its text, which
    is logged."""

    credential: str = field(repr=False)
    type: ClassVar[int] = 100

    def serialize(self) -> bytes:
        """The body of the request."""
        return _INT.pack(0) + _string("digest") + _string(self.credential)


class EndSession:
    """Close (opcode -11), as kazoo does not know it: after it kazoo goes on, finds its session gone, as after
    an expiry, and makes another one."""

    type = -11

    def serialize(self) -> bytes:
        """The body of the request, which is empty."""
        return b""

    def deserialize(self, buffer: bytes, offset: int) -> None:
        """Nor has the answer; called on kazoo's connection thread."""


class IgnoredAnswer:
    """What kazoo is told to put the answer to EndSession into: nobody waits for it."""

    def set(self, value: object = None) -> None:
        """Called on kazoo's connection thread."""

    def set_exception(self, error: BaseException) -> None:
        """The same: there was no session to end, or the connection broke when it was over."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A znode as multiRead answers it."""

    data: bytes
    version: int
    czxid: int
    ephemeral_owner: int
    children_count: int
    written_at_ms: int = 0
    """When it was last written, by the clock of ZooKeeper's leader."""


@dataclass(frozen=True, slots=True)
class MultiReadRequest:
    """Reads of many znodes in one round trip. Its response is one entry a path."""

    paths: Sequence[str]
    chroot: str = ""
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        """The body of the request; called on kazoo's connection thread."""
        parts: list[bytes] = []
        for path in self.paths:
            parts += (_GET_DATA_HEADER, _string(self.chroot + path), b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[ReadResult | OperationFailed]:
        """The results; called on kazoo's connection thread."""
        results: list[ReadResult | OperationFailed] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                assert len(results) == len(self.paths), "ZooKeeper answers each read of a multiRead"
                return results
            if kind == _GET_DATA:
                length = max(0, _INT.unpack_from(buffer, offset)[0])
                offset += _INT.size
                data = bytes(buffer[offset : offset + length])
                offset += length
                czxid, _, _, mtime, version, _, _, owner, _, children, _ = _STAT.unpack_from(buffer, offset)
                offset += _STAT.size
                results.append(ReadResult(data, version, czxid, owner, children, mtime))
            else:
                results.append(OperationFailed(_INT.unpack_from(buffer, offset)[0]))
                offset += _INT.size


@dataclass(frozen=True, slots=True)
class MultiChildrenRequest:
    """The names of the children of many znodes in one round trip. Its response is one entry a path."""

    paths: Sequence[str]
    chroot: str = ""
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        """The body of the request; called on kazoo's connection thread."""
        parts: list[bytes] = []
        for path in self.paths:
            parts += (_GET_CHILDREN_HEADER, _string(self.chroot + path), b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[list[str] | OperationFailed]:
        """The results; called on kazoo's connection thread."""
        results: list[list[str] | OperationFailed] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                assert len(results) == len(self.paths), "ZooKeeper answers each read of a multiRead"
                return results
            count = _INT.unpack_from(buffer, offset)[0]
            offset += _INT.size
            if kind != _GET_CHILDREN:
                results.append(OperationFailed(count))
                continue
            names = []
            for _ in range(max(0, count)):
                length = _INT.unpack_from(buffer, offset)[0]
                offset += _INT.size
                names.append(bytes(buffer[offset : offset + length]).decode())
                offset += length
            results.append(names)


@dataclass(frozen=True, slots=True)
class AddTreeWatch:
    """Watch a znode and everything below it, until the connection ends. Its response says nothing."""

    path: str
    chroot: str = ""
    type: ClassVar[int] = 106

    def serialize(self) -> bytes:
        """The body of the request; called on kazoo's connection thread."""
        return _string(self.chroot + self.path) + _INT.pack(_PERSISTENT_RECURSIVE)

    def deserialize(self, buffer: bytes, offset: int) -> None:
        """Nothing to read: an error comes in the header of the response."""


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded
