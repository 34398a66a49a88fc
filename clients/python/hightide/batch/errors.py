"""The errors of a record batch or of the message that carries it."""

from __future__ import annotations

from typing import ClassVar

from hightide.v1.errors_pb2 import ErrorCode

__all__ = [
    "BatchError",
    "BatchTooLarge",
    "CorruptBatch",
    "InvalidBatch",
    "MalformedMessage",
    "UnsupportedMagic",
]


class BatchError(ValueError):
    """A record batch that cannot be used. `code` is a server's answer to the sender."""

    code: ClassVar[ErrorCode.ValueType] = ErrorCode.ERROR_CODE_INVALID_BATCH


class CorruptBatch(BatchError):
    """The bytes differ from those that were written: the CRC does not match, or they end too soon."""

    code = ErrorCode.ERROR_CODE_CORRUPT_BATCH


class InvalidBatch(BatchError):
    """The header contradicts the body, the size, or the request that the batch came in."""

    code = ErrorCode.ERROR_CODE_INVALID_BATCH


class UnsupportedMagic(BatchError):
    """The batch is of a format that this version does not know."""

    code = ErrorCode.ERROR_CODE_UNSUPPORTED_MAGIC


class BatchTooLarge(BatchError):
    """The batch is larger than max.message.bytes, or than readers accept when it is decompressed."""

    code = ErrorCode.ERROR_CODE_BATCH_TOO_LARGE


class MalformedMessage(ValueError):
    """The bytes of a bulk RPC are not the protobuf message that they should be (see
    `hightide.batch.wire`)."""

    code: ClassVar[ErrorCode.ValueType] = ErrorCode.ERROR_CODE_INVALID_REQUEST
