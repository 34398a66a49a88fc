"""Where each leader epoch starts in one log."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EpochEnd", "LeaderEpochs"]


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The answer to EndOffsetForLeaderEpoch. `epoch` is -1 where the log has none at or below the one asked
    for."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of one log. The log that owns it writes the file."""

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 where there is none."""
        raise NotImplementedError

    def start_of(self, epoch: int) -> int | None:
        """Where exactly this epoch starts; None where the log does not know it."""
        raise NotImplementedError

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch at or below `epoch`, and the offset after its last record (KIP-101, KIP-279).

        For the newest epoch that is `log_end_offset`. Where all epochs are newer, or there are none: (-1,
        -1).
        """
        raise NotImplementedError

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at `start_offset`, and persist it. Older or equal epochs change
        nothing."""
        raise NotImplementedError
