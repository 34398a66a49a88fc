"""The disk of a simulated replica: what survives a crash, and what a power cut takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.messages import GONE, Record


@dataclass
class Disk:
    """What survives a crash."""

    log: list[Record] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    durable_end_offset: int = 0
    high_watermark_checkpoint: int = 0
    first_offset: int = 0
    """Where the first segment begins: nothing before is there."""
    log_start: int = 0
    log_start_written: int = 0
    """As far as it is written down."""
    is_doubtful: bool = False
    """The power went, and with it records that others may count on."""

    def open(self) -> None:
        """A process finds what is there; the log is durable to its end then."""
        self.log_start = max(self.first_offset, self.log_start_written)
        if len(self.log) < self.log_start:
            self.begin_at(self.log_start)
        self.durable_end_offset = len(self.log)
        self.high_watermark_checkpoint = min(self.high_watermark_checkpoint, len(self.log))

    def begin_at(self, offset: int) -> None:
        """The log is thrown away, and begins anew."""
        self.log = [GONE] * offset
        self.epochs = {}
        self.first_offset = self.log_start = self.durable_end_offset = offset
        self.log_start_written = min(self.log_start_written, offset)

    def cut(self, offset: int) -> None:
        """The log ends there."""
        del self.log[offset:]
        self.epochs = {epoch: start for epoch, start in self.epochs.items() if start < offset}
        self.durable_end_offset = min(self.durable_end_offset, offset)
        self.high_watermark_checkpoint = min(self.high_watermark_checkpoint, offset)

    @property
    def is_untouched(self) -> bool:
        """Nothing of the partition is here: it never was, or it is gone."""
        return not self.log and not self.epochs

    def replace(self) -> None:
        """Another disk is put in its place."""
        self.begin_at(0)
        self.log_start_written = self.high_watermark_checkpoint = 0

    def lose(self, records: int) -> None:
        """The power goes. Epochs reach the disk with the records: the last one is forgotten with them."""
        self.cut(len(self.log) - records)
