"""The lineage of a log: the leader epoch in which each part of it was written (KIP-101)."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

NO_EPOCH: Final = -1
"""Stands for "no epoch" in questions and answers about epochs."""


class EpochStart(NamedTuple):
    """A leader epoch and the offset of the first record that its leader wrote, or would have written."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """An answer about the end of an epoch: the largest epoch ≤ the one in the question, and its end
    offset."""

    epoch: int
    end_offset: int


class EpochLineage(Struct, frozen=True):
    """The epochs of one log in order; both the epochs and their start offsets rise strictly.

    The storage keeps the same list on disk (`leader_epochs`); this is the copy that decisions are made on. It
    changes on elections and truncations only, so that replacing the tuple is cheap.
    """

    entries: tuple[EpochStart, ...] = ()

    @property
    def latest_epoch(self) -> int:
        """The newest epoch in the log, NO_EPOCH if it has none."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> EpochLineage:
        """The lineage with `epoch` beginning at `start_offset`; no change if the epoch is known already.

        An epoch without records (which would begin at or after `start_offset`) is dropped.
        """
        if self.entries and self.entries[-1].epoch == epoch:
            return self
        assert epoch > self.latest_epoch, f"epochs of a log rise: {epoch} after {self.latest_epoch}"
        kept = tuple(e for e in self.entries if e.start_offset < start_offset)
        return EpochLineage((*kept, EpochStart(epoch, start_offset)))

    def truncate_to(self, end_offset: int) -> EpochLineage:
        """The lineage of the log truncated to `end_offset`, without epochs that begin there or later."""
        if not self.entries or self.entries[-1].start_offset < end_offset:
            return self
        return EpochLineage(tuple(e for e in self.entries if e.start_offset < end_offset))

    def begin_at(self, start_offset: int) -> EpochLineage:
        """The lineage of a log whose older records were deleted: the epoch of `start_offset` begins there."""
        if not self.entries or self.entries[0].start_offset >= start_offset:
            return self
        kept = [e for e in self.entries if e.start_offset >= start_offset]
        if not kept or kept[0].start_offset > start_offset:
            spanning = [e for e in self.entries if e.start_offset < start_offset][-1]
            kept.insert(0, EpochStart(spanning.epoch, start_offset))
        return EpochLineage(tuple(kept))

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last record below an offset; NO_EPOCH if the log has none there."""
        return next((e.epoch for e in reversed(self.entries) if e.start_offset < offset), NO_EPOCH)

    def end_offset_for(self, epoch: int, log_start_offset: int, log_end_offset: int) -> EpochEnd:
        """Where `epoch` ended: the largest epoch ≤ `epoch` and the start of the one after it (KIP-279).

        If no epoch is as old, (NO_EPOCH, log start offset): nothing of it is in this log.
        """
        end_offset = log_end_offset
        for entry in reversed(self.entries):
            if entry.epoch <= epoch:
                assert end_offset >= entry.start_offset
                return EpochEnd(entry.epoch, end_offset)
            end_offset = entry.start_offset
        return EpochEnd(NO_EPOCH, log_start_offset)
