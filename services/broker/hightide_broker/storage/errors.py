"""What can go wrong in storage, each with the ErrorCode that a server answers with.

Strategy: `StorageFailed` and `DiskFull` come from the operating system and are raised in `files` and `log`
only; `DamagedLog` is about one log, and leaves the others alone; `OffsetOutOfRange` and `AppendOutOfOrder`
come from what was asked; the others stop a broker from starting. What is wrong with a batch that comes from
outside is a `hightide.batch.errors.BatchError`. No OSError leaves this package.
"""

from __future__ import annotations

from typing import ClassVar

from hightide.v1.errors_pb2 import ErrorCode

__all__ = [
    "AppendOutOfOrder",
    "CorruptFile",
    "DamagedLog",
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
    """The log was closed or put into quarantine, and its user does not know yet."""

    code = ErrorCode.ERROR_CODE_UNKNOWN_PARTITION


class UnknownLog(StorageError):
    """The data directory holds no such partition, and it was not to be created."""

    code = ErrorCode.ERROR_CODE_UNKNOWN_PARTITION


class CorruptFile(StorageError):
    """A file that cannot be rebuilt from the log is damaged, or of a version that this broker does not
    know."""


class DamagedLog(StorageError):
    """What lies on disk of one log is not what was written: a batch fails its check, or a file is missing or
    too short. The rest of the log serves on, and so does the data directory. Clients take it for a failed
    disk: they try again, and ask who leads by then."""

    def __init__(
        self, topic: str, topic_id: bytes, partition: int, reason: str, segment: int = -1, offset: int = -1
    ) -> None:
        """`segment` is the base offset of the one that is damaged, `offset` that of the first batch that
        cannot be used; -1 where that is not known."""
        where = f" at offset {offset}" if offset >= 0 else ""
        super().__init__(
            f"{topic}-{partition} is damaged{where}: {reason}; the replica repairs itself from the other "
            "replicas, see `hightide cluster health`"
        )
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.reason = reason
        self.segment = segment
        self.offset = offset


class DirectoryLocked(StorageError):
    """Another process has the data directory open."""


class WrongCluster(StorageError):
    """The data directory belongs to another cluster."""

    code = ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID


class WrongBroker(StorageError):
    """The data directory belongs to another broker of the cluster."""
