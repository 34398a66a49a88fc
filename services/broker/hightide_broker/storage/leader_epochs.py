"""Where each leader epoch starts in one log, in memory and in the file `leader_epochs`.

Theory of operation. An election adds one entry to each partition that moves, so adding must be cheap: an
entry is appended to the file with its own CRC, without fsync, and the log's flush brings it to disk with
the data. Taking away (truncation, retention) writes the file anew. What a power cut takes is rebuilt from
the batches, which name their epochs; an epoch without a batch may be lost then, and changes no answer
(DESIGN 6.1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from hightide.batch.checksum import crc32c

from hightide_broker.storage.disk_health import DiskHealth
from hightide_broker.storage.errors import CorruptFile, DiskFull
from hightide_broker.storage.files import Files
from hightide_broker.storage.sealed_file import read_file, write_new, write_whole

__all__ = ["EpochEnd", "EpochStart", "LeaderEpochs"]

_MAGIC: Final = b"HTLE\x01\x00\x00\x00"
_ENTRY: Final = struct.Struct("<iq")
_CRC: Final = struct.Struct("<I")
_ENTRY_SIZE_BYTES: Final = _ENTRY.size + _CRC.size


class EpochStart(NamedTuple):
    """An epoch, and the offset of the first record that its leader wrote, or would have written."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to EndOffsetForLeaderEpoch. `epoch` is -1 where the log has none at or below the one asked
    for."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of one log; both epochs and start offsets rise strictly. The log calls it under its lock."""

    __slots__ = ("_disk", "_entries", "_files", "_path", "_unsynced", "_written")

    def __init__(self, files: Files, disk: DiskHealth, path: str, on_disk: bool) -> None:
        self._files = files
        self._disk = disk
        self._path = path
        # The entries in order. Replaced, never changed, so that a reader on another thread sees a whole list.
        self._entries: tuple[EpochStart, ...] = ()
        # How many entries the file holds; -1 as long as the log has no directory to put it into.
        self._written = 0 if on_disk else -1
        self._unsynced = False

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All epochs in order; what a replica's core starts from."""
        return self._entries

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 where there is none."""
        return self._entries[-1].epoch if self._entries else -1

    def start_of(self, epoch: int) -> int | None:
        """Where exactly this epoch starts; None where the log does not know it."""
        return next((entry.start_offset for entry in reversed(self._entries) if entry.epoch == epoch), None)

    def end_offset_for(self, epoch: int, log_end_offset: int, log_start_offset: int = 0) -> EpochEnd:
        """The largest epoch at or below `epoch`, and the offset after its last record (KIP-101, KIP-279).

        For the newest epoch that is `log_end_offset`. With no epoch as old as that, (-1, log start offset).
        """
        end_offset = log_end_offset
        for entry in reversed(self._entries):
            if entry.epoch <= epoch:
                return EpochEnd(entry.epoch, end_offset)
            end_offset = entry.start_offset
        return EpochEnd(-1, log_start_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at `start_offset`, and persist it. An epoch that is not newer changes
        nothing.

        Epochs that would start there or later had no record, and go. Raises StorageFailed, DiskFull.
        """
        assert start_offset >= 0, start_offset
        if epoch <= self.latest:
            return
        added = EpochStart(epoch, start_offset)
        kept = tuple(entry for entry in self._entries if entry.start_offset < start_offset)
        if kept and len(kept) == len(self._entries) == self._written:
            self._append(added)
            self._entries = (*kept, added)
        else:
            self._replace((*kept, added))

    def truncate_to(self, end_offset: int) -> None:
        """Forget epochs that start at or after the log's new end. Raises StorageFailed, DiskFull."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace(tuple(entry for entry in self._entries if entry.start_offset < end_offset))

    def begin_at(self, start_offset: int) -> None:
        """Forget epochs that ended before the log's new start; the one that spans it starts there."""
        if not self._entries or self._entries[0].start_offset >= start_offset:
            return
        kept = [entry for entry in self._entries if entry.start_offset >= start_offset]
        if not kept or kept[0].start_offset > start_offset:
            spanning = [entry for entry in self._entries if entry.start_offset < start_offset][-1]
            kept.insert(0, EpochStart(spanning.epoch, start_offset))
        self._replace(tuple(kept))

    def rebuild(self, entries: Iterable[EpochStart]) -> None:
        """Take over what recovery found. Raises StorageFailed, DiskFull."""
        rebuilt = tuple(entries)
        if rebuilt != self._entries or self._written != len(rebuilt):
            self._replace(rebuilt)

    def load(self) -> None:
        """Read the file. Raises CorruptFile where it is missing or damaged: recovery then reads the log."""
        try:
            data = read_file(self._files, self._path)
        except FileNotFoundError as error:
            raise CorruptFile("the leader epochs' file is missing") from error
        if data[: len(_MAGIC)] != _MAGIC:
            raise CorruptFile("the leader epochs' file does not start as one")
        entries: list[EpochStart] = []
        whole = (len(data) - len(_MAGIC)) // _ENTRY_SIZE_BYTES
        for place in range(whole):
            at = len(_MAGIC) + place * _ENTRY_SIZE_BYTES
            entry = EpochStart(*_ENTRY.unpack_from(data, at))
            (crc,) = _CRC.unpack_from(data, at + _ENTRY.size)
            if crc != crc32c(data[at : at + _ENTRY.size]):
                raise CorruptFile("an entry of the leader epochs' file has another CRC")
            if entries and not (
                entry.epoch > entries[-1].epoch and entry.start_offset > entries[-1].start_offset
            ):
                raise CorruptFile("the entries of the leader epochs' file do not rise")
            entries.append(entry)
        self._entries = tuple(entries)
        self._written = whole
        if len(data) != len(_MAGIC) + whole * _ENTRY_SIZE_BYTES:
            # A crash tore the last entry; no batch of its epoch was written, since the entry goes first.
            self._written = -1
            self.directory_made(is_new=False)

    def directory_made(self, is_new: bool = True) -> None:
        """The log has a directory now: write what was kept in memory. Raises StorageFailed, DiskFull."""
        if self._written < 0:
            self._written = 0
            self._replace(self._entries, is_new)

    def sync(self) -> None:
        """Bring the file to disk, if it changed; called by the log's flush, on its thread. Raises OSError."""
        if not self._unsynced or self._written < 0:
            return
        self._unsynced = False
        fd = self._files.open(self._path, create=False)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _append(self, entry: EpochStart) -> None:
        with self._disk:
            self._disk.check_writable()
            fd = self._files.open(self._path, create=False)
            try:
                at = len(_MAGIC) + self._written * _ENTRY_SIZE_BYTES
                data = _encode(entry)
                if self._files.write_at(fd, [data], at) != len(data):
                    # What was written of it is overwritten next time, or cut by `load`.
                    raise DiskFull(f"{self._path}: no room for a leader epoch; free or add space")
            finally:
                self._files.close(fd)
        self._written += 1
        self._unsynced = True

    def _replace(self, entries: tuple[EpochStart, ...], is_new: bool = False) -> None:
        if self._written >= 0:
            with self._disk:
                self._disk.check_writable()
                data = _MAGIC + b"".join(map(_encode, entries))
                if is_new:
                    write_new(self._files, self._path, data)
                else:
                    write_whole(self._files, self._path, data, durable=False)
            self._written = len(entries)
            self._unsynced = True
        self._entries = entries


def _encode(entry: EpochStart) -> bytes:
    packed = _ENTRY.pack(entry.epoch, entry.start_offset)
    return packed + _CRC.pack(crc32c(packed))
