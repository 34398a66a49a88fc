"""What a follower checks of the batches that its leader sends.

A leader's word is checked as well: its disk or the way here may have changed what it sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from hightide.batch.header import BatchHeader, InvalidBatch, iterate, verify_crc

from hightide_broker.storage.errors import AppendOutOfOrder

__all__ = ["ExpectedBatches"]


@dataclass(frozen=True, slots=True)
class ExpectedBatches:
    """What may be appended to a log next."""

    name: str
    """Of the log, for what is said where it does not fit."""
    topic_id: bytes
    partition: int
    next_offset: int
    leader_epoch: int
    """The newest in the log."""

    def check(self, view: memoryview) -> tuple[BatchHeader, ...]:
        """The headers of the batches, each whole, of this partition, in order. Called for each append of a
        follower. Raises BatchError, AppendOutOfOrder."""
        headers = []
        expected, epoch = self.next_offset, self.leader_epoch
        for at, header in iterate(view):
            verify_crc(view, at, header)
            if (header.topic_id, header.partition) != (self.topic_id, self.partition):
                raise InvalidBatch(
                    f"{self.name} was sent a batch of {header.topic_id.hex()}-{header.partition}"
                )
            if header.base_offset != expected or header.leader_epoch < epoch:
                raise AppendOutOfOrder(
                    f"{self.name} was sent offset {header.base_offset} of leader epoch "
                    f"{header.leader_epoch}; the next is {expected} of epoch {epoch} or newer"
                )
            expected, epoch = header.next_offset, header.leader_epoch
            headers.append(header)
        if not headers:
            raise InvalidBatch(f"{self.name} was sent no batch to append")
        return tuple(headers)
