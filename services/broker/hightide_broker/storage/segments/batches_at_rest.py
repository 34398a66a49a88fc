"""Checking a batch at rest: it must be whole, belong to its log, and have its offset and the leader epoch
that the log has there.

The CRC covers everything in a batch except what its leader stamped, the offset and the epoch. These follow
from the batch before it and from the log's epochs. So a batch that passes is, byte for byte, the one that
every replica has at this offset (leader epoch and offset identify a batch, KIP-101).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from hightide.batch.errors import CorruptBatch
from hightide.batch.header import BatchHeader, Buffer, parse, verify_crc

from hightide_broker.storage.checkpoints.leader_epochs import EpochStart

__all__ = ["BatchesAtRest"]


@dataclass(frozen=True, slots=True)
class BatchesAtRest:
    """The common properties of the batches of one log, and the ranges of its leader epochs."""

    topic_id: bytes
    partition: int
    epochs: Sequence[EpochStart]

    def check(self, data: Buffer, at: int, header: BatchHeader) -> None:
        """Check the batch at `at` with this header. Raises CorruptBatch."""
        verify_crc(data, at, header)
        if (header.topic_id, header.partition) != (self.topic_id, self.partition):
            raise CorruptBatch(f"the batch belongs to {header.topic_id.hex()}-{header.partition}")
        epoch = self._epoch_at(header.base_offset)
        if epoch is not None and header.leader_epoch != epoch:
            raise CorruptBatch(
                f"the batch at offset {header.base_offset} has leader epoch {header.leader_epoch}, "
                f"the log has {epoch} there"
            )

    def check_next(self, data: Buffer, at: int, offset: int) -> BatchHeader:
        """The header of the batch at `at`, which must begin at `offset`. Raises BatchError."""
        header = parse(data, at)
        if header.base_offset != offset:
            raise CorruptBatch(f"the batch has offset {header.base_offset}, the next is {offset}")
        self.check(data, at, header)
        return header

    def _epoch_at(self, offset: int) -> int | None:
        """The epoch at this offset; None before the first known epoch."""
        place = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset) - 1
        return self.epochs[place].epoch if place >= 0 else None
