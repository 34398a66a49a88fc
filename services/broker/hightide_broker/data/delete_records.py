"""DeleteRecords: deleting records at the beginning of partitions that this broker leads (KIP-107).

When the leader answers, the deletion is durable on the leader. Followers learn of it with their next fetch.
If the leader dies before any of them has, the records are there again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.contract.data_calls import PartitionDeletion, PartitionRefused
from hightide_broker.core.events import DeleteRecordsArrived
from hightide_broker.core.leader import refuse_client
from hightide_broker.core.log_start import ALL_COMMITTED, log_start_after
from hightide_broker.core.refusals import Refusal
from hightide_broker.data import partition_errors
from hightide_broker.data.log_start_writer import LogStartWriter
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import ReplicaShell, refusal_in
from hightide_broker.storage import StorageError

PARTITIONS_MAX: Final = 1_000


class RecordDeletion:
    """Answers DeleteRecords. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        replicas: HostedReplicas,
        metadata: MetadataCache,
        shell: ReplicaShell,
        log_starts: LogStartWriter,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._shell = shell
        self._log_starts = log_starts

    async def delete(
        self, asked: Sequence[PartitionDeletion], *, validate_only: bool
    ) -> list[int | PartitionRefused]:
        """For each partition, in order, the offset at which its log begins from now on, durably. With
        `validate_only`, the offset at which it would begin. Raises ServiceError for a fault of the whole
        request."""
        if len(asked) > PARTITIONS_MAX:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"the request names {len(asked)} partitions; send at most {PARTITIONS_MAX}",
            )
        if validate_only:
            return [self._checked(each) for each in asked]
        moved = [self._moved(each) for each in asked]
        return list(await asyncio.gather(*map(self._kept, moved)))

    def _checked(self, asked: PartitionDeletion) -> int | PartitionRefused:
        replica = self._replica_of(asked)
        if isinstance(replica, PartitionRefused):
            return replica
        start = log_start_after(replica.state, asked.before_offset)
        return _refused(replica, asked, start) if isinstance(start, Refusal) else start

    def _moved(self, asked: PartitionDeletion) -> HostedReplica | PartitionRefused:
        """Move the log start in memory."""
        replica = self._replica_of(asked)
        if isinstance(replica, PartitionRefused):
            return replica
        try:
            effects = self._shell.feed(replica, DeleteRecordsArrived(asked.before_offset))
        except StorageError as error:
            return partition_errors.by_storage(replica, error)
        refusal = refusal_in(effects)
        return replica if refusal is None else _refused(replica, asked, refusal)

    async def _kept(self, replica: HostedReplica | PartitionRefused) -> int | PartitionRefused:
        """Wait until it is durable, even if the start had moved before, because storing that may have
        failed."""
        if isinstance(replica, PartitionRefused):
            return replica
        start = replica.state.log_start_offset
        try:
            await self._log_starts.kept(replica)
        except StorageError as error:
            return partition_errors.by_storage(replica, error)
        # A new leader may not have heard of it.
        refusal = refuse_client(replica.state, -1)
        return start if refusal is None else partition_errors.by_core(replica, refusal)

    def _replica_of(self, asked: PartitionDeletion) -> HostedReplica | PartitionRefused:
        replica = self._replicas.get(asked.key)
        if replica is None:
            return partition_errors.not_hosted(self._broker_id, self._metadata, asked.key)
        if asked.before_offset < ALL_COMMITTED:
            return PartitionRefused(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"{replica}: {asked.before_offset} is no offset; they run from 0, and -1 stands for all that "
                "is committed",
            )
        return replica


def _refused(replica: HostedReplica, asked: PartitionDeletion, refusal: Refusal) -> PartitionRefused:
    why = partition_errors.by_core(replica, refusal, asked.before_offset)
    if refusal is not Refusal.OFFSET_OUT_OF_RANGE:
        return why
    sentence = (
        f"{replica}: offset {asked.before_offset} is above the high watermark "
        f"{replica.state.high_watermark}; only what is committed can be deleted, name an offset up to that, "
        "or -1"
    )
    return PartitionRefused(why.code, sentence)
