"""Digests of committed batches. A follower uses them to compare its data at rest with its leader's.

A batch is the same on every replica, byte for byte, with the offset and the epoch that its leader stamped. So
one digest compares many batches.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from hashlib import blake2b
from typing import Final

from hightide.batch.errors import BatchError
from hightide.batch.header import iterate
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_broker.contract.replica_calls import DigestQuestion
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.storage import Log, OffsetOutOfRange, StorageError

__all__ = ["DigestServer", "digest_of"]

BATCHES_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most that one digest covers: a piece of the check, or the largest batch."""
_PIECE_BYTES: Final = 1024 * 1024


def digest_of(log: Log, base_offset: int, end_offset: int) -> tuple[bytes, bool]:
    """The digest of the batches of a log that hold these offsets, and whether the batches begin and end
    exactly there.

    Called on a thread that waits for the disk. Raises OffsetOutOfRange if the log lacks these offsets, or
    they are too many, and DamagedLog, StorageFailed, LogClosed.
    """
    digest, offset, size_bytes = blake2b(digest_size=32), base_offset, 0
    begins = base_offset
    while offset < end_offset:
        batches = log.read_file(offset, _PIECE_BYTES, end_offset)
        size_bytes += sum(map(len, batches))
        if not batches or size_bytes > BATCHES_BYTES_MAX:
            raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
        for each in batches:
            for _, header in iterate(each):
                begins = min(begins, header.base_offset)
                offset = header.next_offset
            digest.update(each)
    return digest.digest(), (begins, offset) == (base_offset, end_offset)


class DigestServer:
    """Answers DigestBatches. One for each broker; belongs to the event loop's thread."""

    def __init__(self, cluster_id: str, replicas: HostedReplicas, reads: Executor) -> None:
        """`reads` runs the reads, which wait for disks."""
        self._cluster_id = cluster_id
        self._replicas = replicas
        self._reads = reads

    async def answer(self, question: DigestQuestion) -> bytes:
        """The digest of the batches that hold these offsets, in the log of a partition that this broker
        leads. Raises ServiceError if it does not lead it in that epoch, or if the offsets are not all
        committed."""
        replica = self._replicas.get(question.key)
        if question.follower.cluster_id != self._cluster_id:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID,
                f"broker {question.follower.replica_id} belongs to another cluster than {self._cluster_id!r}",
            )
        if replica is None:
            raise ServiceError(
                ErrorCode.ERROR_CODE_UNKNOWN_PARTITION, f"partition {question.key[1]} is not on this broker"
            )
        _check_leads(replica, question)
        loop = asyncio.get_running_loop()
        try:
            digest, _ = await loop.run_in_executor(
                self._reads, digest_of, replica.log, question.base_offset, question.end_offset
            )
        except (StorageError, BatchError) as error:
            raise ServiceError(error.code, str(error)) from error
        _check_leads(replica, question)  # Else the log may have been truncated meanwhile.
        return digest


def _check_leads(replica: HostedReplica, question: DigestQuestion) -> None:
    state = replica.state
    if not state.is_leader:
        raise ServiceError(ErrorCode.ERROR_CODE_NOT_LEADER, f"{replica} is not led by this broker")
    if state.leader_epoch != question.leader_epoch:
        raise ServiceError(
            ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH,
            f"{replica} is led in epoch {state.leader_epoch}, and not in {question.leader_epoch}",
        )
    if not state.log_start_offset <= question.base_offset < question.end_offset <= state.high_watermark:
        raise ServiceError(
            ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE,
            f"of {replica} the offsets {state.log_start_offset} to {state.high_watermark - 1} are committed; "
            f"asked for is {question.base_offset} to {question.end_offset - 1}",
        )
