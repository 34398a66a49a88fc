"""The leader epochs in which a consumer has read one partition. With them, a leader checks whether its log
still holds the records that were read (KIP-320, KIP-279)."""

from typing import Final, NamedTuple

# Elections are rare. A consumer that goes back further than this many epochs relies on the leader's knowledge
# alone.
EPOCHS_MAX: Final = 16


class EpochRead(NamedTuple):
    """A leader epoch, and the offset of the first record of it that was read."""

    epoch: int
    first_offset: int


class EpochsRead:
    """The epochs of the records below a consumer's position; both epochs and offsets rise strictly.

    Kept by `FetchPosition`, from the headers of the batches that it takes over. Only epochs with records
    count: a leader may have an epoch in which no record was ever written, and no log remembers such an epoch
    for long.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[EpochRead] = []

    def clear(self) -> None:
        """Drop all epochs, because the position came from elsewhere."""
        self._entries.clear()

    def note(self, epoch: int, first_offset: int) -> None:
        """Note that a record of this epoch was read at this offset, after all others."""
        entries = self._entries
        if entries and entries[-1].epoch == epoch:
            return
        if entries and not (epoch > entries[-1].epoch and first_offset > entries[-1].first_offset):
            # Epochs of a log rise. Records read before belong to another history than this one.
            entries.clear()
        entries.append(EpochRead(epoch, first_offset))
        del entries[:-EPOCHS_MAX]

    def before(self, offset: int) -> int | None:
        """The epoch of the last record below an offset up to which records were read, or None if it is not
        known."""
        return next((entry.epoch for entry in reversed(self._entries) if entry.first_offset < offset), None)

    def cut(self, offset: int) -> None:
        """Drop the epochs of records at this offset and beyond."""
        self._entries = [entry for entry in self._entries if entry.first_offset < offset]

    def part_at(self, end_offset: int, epoch: int) -> int:
        """The offset up to which a log may still agree with the records that were read; the epochs of later
        ones are dropped.

        `end_offset` and `epoch` are the leader's diverging_end_offset and diverging_epoch: it has no record
        of a later epoch that was read. The histories may differ even earlier: the next fetch asks again, with
        the epoch that is left before that offset.
        """
        lost = next((entry.first_offset for entry in self._entries if entry.epoch > epoch), end_offset)
        offset = min(end_offset, lost)
        self.cut(offset)
        if not self._entries and epoch >= 0 and offset == end_offset > 0:
            self.note(epoch, offset - 1)
        return offset
