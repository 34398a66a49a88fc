"""The start of each leader epoch in one log, in memory and in the file `leader_epochs`.

Theory of operation. An election adds one entry to each partition that moves, and ten thousand may move at
once: so it adds in memory only, and waits for no disk. The first batch of the epoch writes the entry, before
itself. An entry has its own CRC and is written behind the ones that stay, without fsync; the log's flush
brings it to disk with the data, before any record of the epoch counts as durable. Cutting the log cuts the
file, which is not synced either. Only retention and recovery write the file anew, synced.

Entries lost in a power cut are rebuilt from the batches, which name their epochs. An epoch without a batch
is lost with its process, and changes no answer: its leader does not lead in it after a restart (a spent
epoch), the next epoch would begin at the same offset and take its place, and a follower never had it. The
entry whose place it took in memory may be in the file then; it has no batch either. Entries that a
power cut brings back are cut again when the follower asks its leader; but records of an older epoch must not
have been appended behind it, so the log syncs such a cut before that (`UnsyncedCuts`). The rule:
docs/protocol.md, "Truncate by epoch".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from hightide.batch.checksum import crc32c
from hightide.batch.header import NO_EPOCH

from hightide_broker.storage.errors import CorruptFile, DiskFull, StorageFailed
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.sealed_file import read_file, write_new, write_whole
from hightide_broker.storage.volume.log_files import LogFiles

__all__ = ["EpochEnd", "EpochStart", "LeaderEpochs", "decode"]

_MAGIC: Final = b"HTLE\x01\x00\x00\x00"
_ENTRY: Final = struct.Struct("<iq")
_CRC: Final = struct.Struct("<I")
_ENTRY_SIZE_BYTES: Final = _ENTRY.size + _CRC.size


class EpochStart(NamedTuple):
    """An epoch, and the offset of the first record that its leader wrote, or would have written."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to EndOffsetForLeaderEpoch. `epoch` is -1 if the log has none at or below the one in the
    question."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of one log; both epochs and start offsets rise strictly. The log calls it under its lock."""

    __slots__ = (
        "_damaged",
        "_disk",
        "_entries",
        "_files",
        "_in_file",
        "_lacks_records",
        "_path",
        "_unsynced",
        "_written",
    )

    def __init__(self, files: Files, disk: LogFiles, path: str, on_disk: bool) -> None:
        self._files = files
        self._disk = disk
        self._path = path
        # The entries in order. Replaced, never changed, so that a reader on another thread sees a whole list.
        self._entries: tuple[EpochStart, ...] = ()
        # How many entries the file holds; -1 as long as the log has no directory to put it into.
        self._in_file = 0 if on_disk else -1
        # How many of these are the first ones here. Others had no batch, and have lost their places.
        self._written = 0
        self._unsynced = False
        # The file is missing or useless: it is written anew in any case.
        self._damaged = False
        # The file found no room for epochs of records that the log has.
        self._lacks_records = False

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All epochs in order; what a replica's core starts from."""
        return self._entries

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 if there is none."""
        return self._entries[-1].epoch if self._entries else -1

    @property
    def latest_written(self) -> int:
        """The newest epoch that the file has too, or -1 if there is none: what a restart must find. If it
        has to read the log for that, because there was no room in the file, the newest of all."""
        if self._lacks_records:
            return self.latest
        return self._entries[self._written - 1].epoch if self._written else -1

    def start_of(self, epoch: int) -> int | None:
        """The exact start of this epoch; None if the log does not know it."""
        return next((entry.start_offset for entry in reversed(self._entries) if entry.epoch == epoch), None)

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record before an offset; NO_EPOCH if the log has none there."""
        before = (each.epoch for each in reversed(self._entries) if each.start_offset < offset)
        return next(before, NO_EPOCH)

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

    def kept_below(self, offset: int, latest: int) -> int:
        """Up to where, below `offset`, the log is as it was when `latest` was its latest epoch.

        Records of a newer epoch may have replaced others. If that epoch is gone, so may older records, nobody
        knows where: 0. Called about a high watermark that was read at that time.
        """
        if latest != NO_EPOCH and self.start_of(latest) is None:
            return 0
        newer = (entry.start_offset for entry in self._entries if entry.epoch > latest)
        return min(offset, next(newer, offset))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note in memory that `epoch` starts at `start_offset`. An epoch that is not newer changes nothing.

        Epochs that would start there or later had no record, and go.
        """
        assert start_offset >= 0, start_offset
        if epoch <= self.latest:
            return
        kept = tuple(entry for entry in self._entries if entry.start_offset < start_offset)
        self._written = min(self._written, len(kept))
        self._entries = (*kept, EpochStart(epoch, start_offset))

    def begin(self, starts: Iterable[EpochStart]) -> None:
        """Note the epochs that batches begin, and make the file say what is known: it lacks epochs that are
        in memory only, and may have others, which lost their places. The log calls it before it writes the
        batches. Raises StorageFailed, DiskFull: none of these is noted then."""
        before = self._entries
        for start in starts:
            self.assign(*start)
        if self._in_file < 0 or self._written == len(self._entries) == self._in_file:
            return
        try:
            if self._files.exists(self._path) and not self._damaged:
                self._change_end(self._written, self._entries[self._written :])
            else:
                self._replace(self._entries)
        except (DiskFull, StorageFailed):
            self._entries = before
            raise
        self._written = len(self._entries)
        self._lacks_records = False

    def truncate_to(self, end_offset: int) -> None:
        """Drop epochs that start at or after the log's new end. Raises StorageFailed, DiskFull."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            kept = tuple(entry for entry in self._entries if entry.start_offset < end_offset)
            written = min(self._written, len(kept))
            if self._in_file > written:
                self._change_end(written)
            self._written, self._entries = written, kept

    def begin_at(self, start_offset: int) -> None:
        """Drop epochs that ended before the log's new start; the one that spans it starts there."""
        if not self._entries or self._entries[0].start_offset >= start_offset:
            return
        kept = [entry for entry in self._entries if entry.start_offset >= start_offset]
        if not kept or kept[0].start_offset > start_offset:
            spanning = [entry for entry in self._entries if entry.start_offset < start_offset][-1]
            kept.insert(0, EpochStart(spanning.epoch, start_offset))
        self._replace(tuple(kept))

    def rebuild(self, entries: Iterable[EpochStart]) -> None:
        """Apply the entries that recovery found. It needs no room: a log can be opened on a full disk, and
        begin anew. What finds none is written before the next batch. Raises StorageFailed."""
        rebuilt = tuple(entries)
        if rebuilt == self._entries and not self._damaged:
            return
        try:
            self._replace(rebuilt)
        except DiskFull:
            self._written = 0 if self._damaged else self._rebuilt_in_place(rebuilt)
            self._entries, self._lacks_records = rebuilt, self._written < len(rebuilt)

    def _rebuilt_in_place(self, rebuilt: tuple[EpochStart, ...]) -> int:
        """Change the end of the file, as when the log is truncated; returns how many entries it has then."""
        pairs = zip(self._entries, rebuilt, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        kept = min(same, self._written)
        try:
            self._change_end(kept, rebuilt[kept:])
        except DiskFull:
            self._change_end(kept)
            return kept
        return len(rebuilt)

    def undo(self, before: tuple[EpochStart, ...]) -> None:
        """Know what was known before: the batches that began other epochs found no room. In the file these
        are as those of leaders that had none."""
        pairs = zip(self._entries, before, strict=False)
        self._written = min(self._written, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
        self._entries = before

    def cut_undone(self) -> None:
        """Cut these from the file, too. Called before a sync after which records of older epochs take their
        places. Raises StorageFailed, DiskFull."""
        if self._in_file > self._written:
            self._change_end(self._written)

    def load(self) -> None:
        """Read the file. Raises CorruptFile if it is missing or damaged: recovery then reads the log."""
        self._damaged = True
        try:
            data = read_file(self._files, self._path)
        except FileNotFoundError as error:
            raise CorruptFile("the leader epochs' file is missing") from error
        self._entries, is_torn = decode(data)
        self._written = self._in_file = len(self._entries)
        self._damaged = False
        if is_torn:
            # A crash tore the last entry; no batch of its epoch was written, since the entry goes first.
            self._in_file += 1
            self._change_end(self._written)

    def restore_file(self) -> None:
        """Write the file again if it is missing. Raises StorageFailed, DiskFull."""
        if self._in_file >= 0 and not self._files.exists(self._path):
            self._replace(self._entries)

    def directory_made(self) -> None:
        """Write the entries kept in memory, because the log has a directory now. Raises StorageFailed,
        DiskFull."""
        if self._in_file < 0:
            with self._disk:
                write_new(self._files, self._path, _MAGIC + b"".join(map(_encode, self._entries)))
            self._written = self._in_file = len(self._entries)
            self._unsynced = True

    def sync(self, *, anyway: bool = False) -> None:
        """Bring the file to disk if it changed, or `anyway`: the writes of a killed process may not be on
        disk. Called by the log's flush, on its thread, and by recovery. Raises OSError."""
        if not (self._unsynced or anyway) or self._in_file < 0 or self._damaged:
            return
        self._unsynced = False
        fd = self._files.open(self._path, create=False)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _change_end(self, kept: int, added: tuple[EpochStart, ...] = ()) -> None:
        """Keep the first entries of the file, and put others behind them.

        A crash in between leaves entries that do not rise, which `load` notices.
        """
        with self._disk:
            self._disk.check_usable()
            fd = self._files.open(self._path, create=False)
            try:
                self._write_end(fd, kept, b"".join(map(_encode, added)))
            finally:
                self._files.close(fd)
        self._in_file = kept + len(added)
        self._unsynced = True

    def _write_end(self, fd: int, kept: int, data: bytes) -> None:
        at = _position(kept)
        if data and self._files.write_at(fd, [data], at) != len(data):
            # A partly written entry is overwritten next time, or cut by `load`.
            raise DiskFull(f"{self._path}: no room for a leader epoch; free or add space")
        if at + len(data) < _position(self._in_file):
            self._files.truncate(fd, at + len(data))

    def _replace(self, entries: tuple[EpochStart, ...]) -> None:
        """Write the file anew, durably: entries that were on disk must not be lost with those that are
        new."""
        if self._in_file >= 0:
            with self._disk:
                self._disk.check_usable()
                data = _MAGIC + b"".join(map(_encode, entries))
                write_whole(self._files, self._path, data, durable=True)
            self._written = self._in_file = len(entries)
            self._unsynced = self._damaged = self._lacks_records = False
        self._entries = entries


def decode(data: bytes) -> tuple[tuple[EpochStart, ...], bool]:
    """The entries of a file, and whether a crash tore one more behind them. Raises CorruptFile."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise CorruptFile("the leader epochs' file does not start as one")
    entries: list[EpochStart] = []
    whole = (len(data) - len(_MAGIC)) // _ENTRY_SIZE_BYTES
    for place in range(whole):
        at = _position(place)
        entry = EpochStart(*_ENTRY.unpack_from(data, at))
        (crc,) = _CRC.unpack_from(data, at + _ENTRY.size)
        if crc != crc32c(data[at : at + _ENTRY.size]):
            raise CorruptFile("an entry of the leader epochs' file has another CRC")
        if entries and not (
            entry.epoch > entries[-1].epoch and entry.start_offset > entries[-1].start_offset
        ):
            raise CorruptFile("the entries of the leader epochs' file do not rise")
        entries.append(entry)
    return tuple(entries), len(data) != _position(whole)


def _position(place: int) -> int:
    """The position of this entry in the file."""
    return len(_MAGIC) + place * _ENTRY_SIZE_BYTES


def _encode(entry: EpochStart) -> bytes:
    packed = _ENTRY.pack(entry.epoch, entry.start_offset)
    return packed + _CRC.pack(crc32c(packed))
