"""ListOffsets: the earliest, the latest, or the first offset at or after a timestamp (KIP-207)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor

from hightide.batch.errors import BatchError
from hightide.v1.broker_service_pb2 import OffsetSpec
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.contract.data_calls import OffsetFound, OffsetQuestion, PartitionRefused
from hightide_broker.core.reads import earliest_offset, latest_offset
from hightide_broker.core.refusals import Refusal
from hightide_broker.data import partition_errors
from hightide_broker.limits import REQUEST_PARTITIONS_MAX
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.storage import StorageError


class OffsetLookup:
    """Answers ListOffsets. One for each broker."""

    def __init__(
        self, broker_id: int, replicas: HostedReplicas, metadata: MetadataCache, disk: Executor
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._disk = disk

    async def look_up(self, questions: Sequence[OffsetQuestion]) -> list[OffsetFound | PartitionRefused]:
        """One answer for each question, in order. Raises ServiceError for a fault of the whole request."""
        if len(questions) > REQUEST_PARTITIONS_MAX:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"the request names {len(questions)} partitions; send at most {REQUEST_PARTITIONS_MAX}",
            )
        return [await self._answer(question) for question in questions]

    async def _answer(self, question: OffsetQuestion) -> OffsetFound | PartitionRefused:
        replica = self._replicas.get(question.key)
        if replica is None:
            return partition_errors.not_hosted(self._broker_id, self._metadata, question.key)
        latest = latest_offset(replica.state, question.leader_epoch)
        match question.spec:
            case OffsetSpec.OFFSET_SPEC_EARLIEST:
                found = earliest_offset(replica.state, question.leader_epoch)
            case OffsetSpec.OFFSET_SPEC_LATEST:
                found = latest
            case OffsetSpec.OFFSET_SPEC_TIMESTAMP:
                if not isinstance(latest, Refusal):
                    return await self._by_timestamp(replica, question.timestamp_us, latest)
                found = latest
            case _:
                return PartitionRefused(
                    ErrorCode.ERROR_CODE_INVALID_REQUEST,
                    f"{replica}: the offset spec is {question.spec}; use EARLIEST, LATEST or TIMESTAMP",
                )
        if isinstance(found, Refusal):
            return partition_errors.by_core(replica, found)
        return _found(replica, found, -1)

    async def _by_timestamp(
        self, replica: HostedReplica, timestamp_us: int, end_offset: int
    ) -> OffsetFound | PartitionRefused:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._disk, replica.log.find_timestamp, timestamp_us, end_offset
            )
        except (BatchError, StorageError) as error:
            return partition_errors.by_storage(replica, error)
        if found is None:
            return _found(replica, -1, -1)
        return _found(replica, found.offset, found.timestamp_us)


def _found(replica: HostedReplica, offset: int, timestamp_us: int) -> OffsetFound:
    state = replica.state
    return OffsetFound(offset, timestamp_us, state.leader_epoch, state.epochs.epoch_before(offset))
