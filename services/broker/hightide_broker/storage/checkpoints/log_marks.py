"""The start and the end of each log of a data directory, recorded with each append: the file `marks`.

Theory of operation. What a process wrote survives its death, because the operating system has it. So after a
kill a log must be as long as it was. Its files alone do not show that: a file that was truncated, or is gone,
looks like one that was never longer. A mark records it, in a record of its own in one file for all logs: 64
bytes that are overwritten in place and never synced, which takes a microsecond or two for each append. Marks
are valid for the boot of the machine in which they were written. After another boot anything unsynced may be
lost, marks and records alike. Then only the checkpoints count, which record what was synced.

The order makes sure that a mark never claims too much: it moves up after an append, and down before a
truncation. A partition that never had a record has none, so that ten thousand empty ones cost nothing.
"""

from __future__ import annotations

import errno
import logging
import os
import struct
import threading
from collections.abc import Mapping
from typing import Final, NamedTuple

from hightide.batch.checksum import crc32c

from hightide_broker.storage.checkpoints.checkpoint import PartitionKey
from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.sealed_file import read_file, write_whole

__all__ = ["NOTHING", "UNLIMITED", "LogMark", "LogMarks", "MarkOfLog"]

log = logging.getLogger(__name__)

_NAME: Final = "marks"
_HEADER: Final = struct.Struct("<4sII40s")
_RECORD: Final = struct.Struct("<16siqqiq")
_CRC: Final = struct.Struct("<I")
_END: Final = struct.Struct("<I12x")
_SIZE_BYTES: Final = 64
_MAGIC: Final = b"HTLM"
_VERSION: Final = 1
_FREE: Final = (bytes(16), -1)
UNLIMITED: Final = 2**63 - 1


class LogMark(NamedTuple):
    """The state of a log: its persisted start, its end, its latest leader epoch, and the offset from which on
    its checkpoint's recovery point no longer counts, because the log was cut below it."""

    start_offset: int
    end_offset: int
    latest_epoch: int
    recovery_limit: int = UNLIMITED


NOTHING: Final = LogMark(0, 0, -1)
"""The mark of a log that has nothing to lose."""


class MarkOfLog:
    """The mark of one log. The log calls it under its lock. Methods raise OSError."""

    __slots__ = ("_marks", "is_current", "is_held", "key", "place", "promised", "written")

    def __init__(
        self,
        marks: LogMarks,
        key: PartitionKey,
        slot: int | None,
        written: LogMark | None,
        *,
        is_current: bool,
    ) -> None:
        self._marks = marks
        self.is_current = is_current
        """Whether it was written by the last process, to its end. Else it is of a checkpoint before that."""
        self.key = key
        self.place = slot
        """Of its record in the file; None if there is none."""
        self.written = written
        """The mark in the file; None if there is none."""
        self.promised = written
        """The mark at the opening of the directory: what the log must have. None if nothing is known."""
        self.is_held = False
        """Whether the mark stays as it is until the broker has left the ISR: promised records that are
        missing must not be forgotten before that."""

    @property
    def exists(self) -> bool:
        """Whether it has a place in the file, so that writing it needs no room."""
        return self.place is not None

    def note(self, mark: LogMark) -> None:
        """Write the mark."""
        if mark == self.written or self.is_held:
            return
        self.place = self._marks.write(self.place, self.key, mark)
        self.written = mark

    def disown(self) -> None:
        """There is no room for the mark of a log that has records: see `LogMarks.disown`."""
        self._marks.disown()

    def clear(self) -> None:
        """Clear the mark: the log is in quarantine, and the next log with its name has nothing to lose."""
        if self.place is not None:
            self._marks.free(self.place)
        self.place = self.written = self.promised = None


class LogMarks:
    """The marks of one data directory. Any thread. Made by `open`."""

    def __init__(
        self,
        files: Files,
        root: str,
        boot: str,
        of: Mapping[PartitionKey, tuple[int, LogMark]],
        count: int,
        *,
        are_current: bool,
    ) -> None:
        """Called by `open`, with the places and marks in the file; `are_current` as of each mark."""
        self._are_current = are_current
        self._of_this_life: set[PartitionKey] = set()
        self._files = files
        self._path = f"{root}/{_NAME}"
        self._boot = boot
        self._lock = threading.RLock()
        self._count = count
        self._slots = dict(of)
        self._free = sorted(set(range(count)) - {slot for slot, _ in of.values()})
        self._fd: int | None = None
        """None as long as there is no room for the file, which a power cut may have taken."""
        self._is_disowned = False
        try:
            self._opened()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    @classmethod
    def open(
        cls, files: Files, root: str, promised: Mapping[PartitionKey, LogMark], *, is_known: bool
    ) -> tuple[LogMarks, bool]:
        """The marks of a directory, and whether those that were found there hold.

        `promised` is the state that is known from elsewhere. It counts if the marks do not hold, or if it is
        complete (`is_known`: the last life closed its logs). Called by the data directory when it is opened.
        Raises OSError.
        """
        boot = files.machine_boot()
        found = None if is_known else _load(files, root, boot)
        if found is not None:
            return cls(files, root, boot, *found, are_current=True), True
        of = {key: (slot, mark) for slot, (key, mark) in enumerate(promised.items())}
        records = b"".join(_record(key, mark) for key, mark in promised.items())
        try:
            write_whole(files, f"{root}/{_NAME}", _header(boot, len(of)) + records, durable=False)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # Those of the life before have other places, and may be of this boot. Without any a kill costs
            # the ISRs.
            _empty(files, f"{root}/{_NAME}")
            log.warning("how long the logs are is not written down, since there is no room: %s", error)
        return cls(files, root, boot, of, len(of), are_current=False), False

    def of(self, key: PartitionKey) -> MarkOfLog:
        """The mark of one log. Called when it is opened."""
        with self._lock:
            found = self._slots.pop(key, None)
        place, mark = found if found is not None else (None, None)
        is_current = self._are_current or key in self._of_this_life
        return MarkOfLog(self, key, place, mark, is_current=is_current)

    def promised(self, key: PartitionKey) -> LogMark | None:
        """The state that a log that was not opened yet must have; None if it has no mark."""
        found = self._slots.get(key)
        return None if found is None else found[1]

    def give_back(self, mark: MarkOfLog) -> None:
        """Keep the mark of a log that could not be opened or put aside, for when it is opened again."""
        if mark.place is not None and mark.written is not None:
            with self._lock:
                self._slots[mark.key] = (mark.place, mark.written)
                if mark.written != mark.promised:
                    self._of_this_life.add(mark.key)

    def write(self, slot: int | None, key: PartitionKey, mark: LogMark) -> int:
        """Write a record, which keeps its place from the first time on. Returns the place."""
        if slot is not None:
            self._write_at(slot + 1, _record(key, mark))
            return slot
        with self._lock:
            slot = self._free.pop() if self._free else self._count
            self._write_at(slot + 1, _record(key, mark))
            if slot == self._count:
                # How many there are says whether some were cut off.
                self._write_at(0, _header(self._boot, slot + 1))
                self._count += 1
        return slot

    def free(self, slot: int) -> None:
        """Mark this place as free."""
        with self._lock:
            self._write_at(slot + 1, _record(_FREE, NOTHING))
            self._free.append(slot)

    def disown(self) -> None:
        """Empty the file, and write nothing to it any more, so that the next life believes no log: without a
        mark a log would have nothing to lose."""
        with self._lock:
            self._is_disowned = True
            self._files.truncate(self._opened(), 0)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            self._files.close(self._fd)

    def _write_at(self, place: int, record: bytes) -> None:
        if self._is_disowned:
            return
        if self._files.write_at(self._opened(), [record], place * _SIZE_BYTES) != len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def _opened(self) -> int:
        """The file, which is made if it is missing. Raises OSError."""
        if self._fd is None:
            with self._lock:
                if self._fd is None:
                    self._fd = self._files.open(self._path, create=True)
        return self._fd


def _empty(files: Files, path: str) -> None:
    """Cut the file to nothing, which needs no room."""
    if files.exists(path):
        fd = files.open(path, create=False)
        try:
            files.truncate(fd, 0)
        finally:
            files.close(fd)


def _load(files: Files, root: str, boot: str) -> tuple[dict[PartitionKey, tuple[int, LogMark]], int] | None:
    """The marks of this boot, each with its place, and how many places there are; None where none holds."""
    path = f"{root}/{_NAME}"
    if not boot or not files.exists(path):
        return None
    try:
        of_boot, count, found = _decode(read_file(files, path))
    except CorruptFile as error:
        log.error("%s is damaged (%s): how long the logs were is not known", path, error)
        return None
    return (found, count) if of_boot == boot else None


def _decode(data: bytes) -> tuple[str, int, dict[PartitionKey, tuple[int, LogMark]]]:
    magic, version, count, boot = _HEADER.unpack(_checked(data, 0, _HEADER.size))
    if (magic, version) != (_MAGIC, _VERSION):
        raise CorruptFile(f"it starts with {magic!r} and version {version}")
    found: dict[PartitionKey, tuple[int, LogMark]] = {}
    for slot in range(count):
        topic_id, partition, *mark = _RECORD.unpack(_checked(data, slot + 1, _RECORD.size))
        if (topic_id, partition) != _FREE:
            found[topic_id, partition] = (slot, LogMark(*mark))
    return boot.rstrip(b"\0").decode("ascii", "replace"), count, found


def _checked(data: bytes, place: int, size: int) -> bytes:
    at = place * _SIZE_BYTES
    contents = data[at : at + size]
    if len(data) < at + _SIZE_BYTES:
        raise CorruptFile(f"it ends at byte {len(data)}, in record {place}")
    (crc,) = _CRC.unpack_from(data, at + size)
    if crc != crc32c(contents):
        raise CorruptFile(f"record {place} has another CRC")
    return contents


def _header(boot: str, count: int) -> bytes:
    contents = _HEADER.pack(_MAGIC, _VERSION, count, boot.encode("ascii", "replace")[:40])
    return (contents + _CRC.pack(crc32c(contents))).ljust(_SIZE_BYTES, b"\0")


def _record(key: PartitionKey, mark: LogMark) -> bytes:
    contents = _RECORD.pack(*key, *mark)
    return contents + _END.pack(crc32c(contents))
