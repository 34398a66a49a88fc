"""What can go wrong in storage, each with the ErrorCode that a server answers with.

Strategy: `StorageFailed` and `DiskFull` come from the operating system and are raised in `files` and `log`
only; `OffsetOutOfRange` and `AppendOutOfOrder` come from what was asked; the others stop a broker from
starting. What is wrong with a batch is a `hightide.batch.errors.BatchError`. No OSError leaves this
package.
"""

from __future__ import annotations

from typing import ClassVar

from hightide.v1.errors_pb2 import ErrorCode

__all__ = [
    "AppendOutOfOrder",
    "CorruptFile",
    "DirectoryLocked",
    "DiskFull",
    "LogClosed",
    "OffsetOutOfRange",
    "StorageError",
    "StorageFailed",
    "UnknownLog",
    "WrongBroker",
    "WrongCluster",
]


class StorageError(Exception):
    """Anything that storage raises on purpose. `code` is what a server answers."""

    code: ClassVar[ErrorCode.ValueType] = ErrorCode.ERROR_CODE_STORAGE_FAILED


class StorageFailed(StorageError):
    """An I/O error, or an earlier one: the data directory takes no more writes until the broker is
    restarted."""


class DiskFull(StorageError):
    """No room for the write; the log is as it was before. Retriable when there is room again."""

    code = ErrorCode.ERROR_CODE_DISK_FULL


class OffsetOutOfRange(StorageError):
    """A read below the log start offset or above the log end offset."""

    code = ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            f"offset {offset} is not between log start {log_start_offset} and end {log_end_offset}"
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class AppendOutOfOrder(StorageError):
    """Batches from a leader that do not start at the log end offset, leave a gap, or go back in leader
    epoch."""

    code = ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE


class LogClosed(StorageError):
    """The log was closed or put into quarantine; whoever holds it is late."""

    code = ErrorCode.ERROR_CODE_UNKNOWN_PARTITION


class UnknownLog(StorageError):
    """The data directory holds no such partition, and it was not to be created."""

    code = ErrorCode.ERROR_CODE_UNKNOWN_PARTITION


class CorruptFile(StorageError):
    """A file that cannot be rebuilt from the log is damaged, or of a version that this broker does not
    know."""


class DirectoryLocked(StorageError):
    """Another process has the data directory open."""


class WrongCluster(StorageError):
    """The data directory belongs to another cluster."""

    code = ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID


class WrongBroker(StorageError):
    """The data directory belongs to another broker of the cluster."""
