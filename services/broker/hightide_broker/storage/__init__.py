"""The log on disk: segments, indexes, checkpoints. It knows files and nothing of replication."""

from hightide_broker.storage.checkpoints.leader_epochs import EpochEnd, EpochStart, LeaderEpochs
from hightide_broker.storage.directory.data_directory import DataDirectory, PartitionKey, directory_name
from hightide_broker.storage.errors import (
    AppendOutOfOrder,
    CorruptFile,
    DamagedLog,
    DirectoryLocked,
    DiskFull,
    LogClosed,
    OffsetOutOfRange,
    StorageError,
    StorageFailed,
    UnknownLog,
    WrongBroker,
    WrongCluster,
)
from hightide_broker.storage.log.answers import AppendInfo, TimestampFound
from hightide_broker.storage.log.log import Log
from hightide_broker.storage.log.log_at_rest import BatchPlace, SegmentMend
from hightide_broker.storage.log.producer_states import (
    DuplicateBatch,
    NewBatch,
    ProducerState,
    ProducerStates,
    RejectedBatch,
    Verdict,
)
from hightide_broker.storage.log.retention import DeletedRecords, ExpiredRecords
from hightide_broker.storage.settings import DirectorySettings, Flush, LogSettings
from hightide_broker.storage.volume.identity import cluster_id_on_disk, refuse_others, whose

__all__ = [
    "AppendInfo",
    "AppendOutOfOrder",
    "BatchPlace",
    "CorruptFile",
    "DamagedLog",
    "DataDirectory",
    "DeletedRecords",
    "DirectoryLocked",
    "DirectorySettings",
    "DiskFull",
    "DuplicateBatch",
    "EpochEnd",
    "EpochStart",
    "ExpiredRecords",
    "Flush",
    "LeaderEpochs",
    "Log",
    "LogClosed",
    "LogSettings",
    "NewBatch",
    "OffsetOutOfRange",
    "PartitionKey",
    "ProducerState",
    "ProducerStates",
    "RejectedBatch",
    "SegmentMend",
    "StorageError",
    "StorageFailed",
    "TimestampFound",
    "UnknownLog",
    "Verdict",
    "WrongBroker",
    "WrongCluster",
    "cluster_id_on_disk",
    "directory_name",
    "refuse_others",
    "whose",
]
