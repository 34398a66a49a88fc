"""The directory that a broker keeps its logs in: whose it is, what is in it, and how it was left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from hightide_broker.storage.files import Files
from hightide_broker.storage.log import Log
from hightide_broker.storage.settings import DirectorySettings, LogSettings

__all__ = ["DataDirectory", "PartitionKey"]

# Topic id (16 bytes) and partition.
PartitionKey: TypeAlias = tuple[bytes, int]


class DataDirectory:
    """A locked data directory. One a broker process; made by `open`, given back by `close`."""

    # How the last process left it: False after a crash, True for a new directory.
    was_closed_cleanly: bool
    # The id of this life of the broker, new at each open.
    boot_id: str

    @classmethod
    def open(
        cls,
        path: Path,
        cluster_id: str,
        broker_id: int,
        settings: DirectorySettings | None = None,
        files: Files | None = None,
    ) -> DataDirectory:
        """Lock the directory, creating it where it is missing, and read what it knows. Opens no log.

        Called once at the start of a broker. Raises DirectoryLocked, WrongCluster, WrongBroker, CorruptFile,
        StorageFailed.
        """
        raise NotImplementedError

    def partitions(self) -> list[PartitionKey]:
        """The partitions found on disk or opened since, in order."""
        raise NotImplementedError

    def log(
        self, topic_id: bytes, partition: int, create: bool, topic_name: str, settings: LogSettings
    ) -> Log:
        """The log of a partition; opened on first use, recovered where it was not closed cleanly.

        With `create`, a partition that is not on disk is made; nothing is written for it before its first
        append, so making 10,000 is cheap. Recovery after a crash reads what is past the recovery point:
        call it in a thread where the partition is in `partitions()`. Raises UnknownLog, StorageFailed.
        """
        raise NotImplementedError

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[PartitionKey, int]) -> None:
        """Write down these high watermarks with every log's start and recovery point. Call it in a thread,
        every 5 s.

        Partitions that are left out keep what they had.
        """
        raise NotImplementedError

    def quarantine(self, topic_id: bytes, partition: int, now_us: int) -> None:
        """Put a partition aside that is no longer assigned here; its log is closed (DESIGN 6.6). Harmless
        if unknown."""
        raise NotImplementedError

    def delete_expired_quarantine(self, now_us: int) -> list[str]:
        """Delete what was put aside longer than the grace period ago; give the names deleted. Call it in a
        thread."""
        raise NotImplementedError

    def close(self, clean: bool = True) -> None:
        """Close all logs, write the checkpoint and, if `clean` and nothing failed, the clean-shutdown
        marker; unlock."""
        raise NotImplementedError
