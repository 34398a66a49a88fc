"""What is in the logs of a broker, read from its files as they are: whole batches, back to back.

A batch is known by its CRC, which covers all but what a leader stamps: so a record is told by the value that
its producer gave it, and nothing is decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sim.messages import GONE, Record
from sim.topics.files import Directory, File, MemoryDisk
from sim.topics.messages import Key

_HEADER: Final = struct.Struct("<qiiB3xI")
_START: Final = struct.Struct("<q")
_START_FILE_SIZE_BYTES: Final = 24
_HEADER_SIZE_BYTES: Final = 80
_UNCOUNTED_BYTES: Final = 12
_MARKS_HEADER: Final = struct.Struct("<4sII40s")
_MARK: Final = struct.Struct("<16siq")
_MARK_SIZE_BYTES: Final = 64


@dataclass(frozen=True)
class LogOnDisk:
    """One log, as the checkers of sim.checkers read a disk."""

    log: list[Record] = field(default_factory=list)
    log_start: int = 0


EMPTY: Final = LogOnDisk()


class LogsOnDisk:
    """The logs of one machine. What has not changed is not read again."""

    def __init__(
        self, disk: MemoryDisk, directories: tuple[str, ...], values: Mapping[int, tuple[int, ...]]
    ) -> None:
        """`values` tells by its CRC what each batch that was ever made holds."""
        self._disk = disk
        self._directories = directories
        self._values = values
        self._read: dict[Key, tuple[Directory, int, LogOnDisk]] = {}
        self._seen = -1
        self._found: dict[Key, Directory] = {}
        self._above: dict[Key, Directory] = {}
        """The data directory of each."""

    def partitions(self) -> dict[Key, Directory]:
        """What has a directory."""
        if self._seen != self._disk.changes:
            self._seen, self._found = self._disk.changes, self._look()
        return self._found

    def _look(self) -> dict[Key, Directory]:
        found: dict[Key, Directory] = {}
        for path in self._directories:
            above = self._disk.find(path)
            if not isinstance(above, Directory):
                continue
            for name, node in above.entries.items():
                topic_id, _, partition = name.partition("-")
                if isinstance(node, Directory) and len(topic_id) == 32 and partition.isdigit():
                    key = bytes.fromhex(topic_id), int(partition)
                    if key not in found:
                        found[key], self._above[key] = node, above
        return found

    def log(self, key: Key) -> LogOnDisk:
        """The log of a partition; empty where there is none."""
        directory = self.partitions().get(key)
        if directory is None:
            return EMPTY
        if not any(name.endswith(".log") for name in directory.entries):
            start = max(_start_alone(directory), self._start_in_mark(key))
            return LogOnDisk([GONE] * start, start)
        known = self._read.get(key)
        if known is not None and known[0] is directory and known[1] == directory.version:
            return known[2]
        read = self._parse(directory)
        self._read[key] = (directory, directory.version, read)
        return read

    def _start_in_mark(self, key: Key) -> int:
        """Where a log begins by its mark, which alone says so where the disk had no room for the file
        `log_start`. Marks of another boot say nothing."""
        marks = self._above[key].entries.get("marks")
        data = marks.data if isinstance(marks, File) else b""
        if len(data) < _MARK_SIZE_BYTES:
            return 0
        _, _, count, boot = _MARKS_HEADER.unpack_from(data, 0)
        if boot.rstrip(b"\0").decode() != f"boot-{self._disk.boots}":
            return 0
        for at in range(_MARK_SIZE_BYTES, min(len(data), (count + 1) * _MARK_SIZE_BYTES), _MARK_SIZE_BYTES):
            topic_id, partition, start = _MARK.unpack_from(data, at)
            if (topic_id, partition) == key:
                return int(start)
        return 0

    def _parse(self, directory: Directory) -> LogOnDisk:
        segments = sorted(name for name in directory.entries if name.endswith(".log"))
        start = int(segments[0].partition(".")[0])
        log: list[Record] = [GONE] * start
        for name in segments:
            file = directory.entries[name]
            assert isinstance(file, File)
            data, at = file.data, 0
            while len(data) - at >= _HEADER_SIZE_BYTES:
                base_offset, length_bytes, epoch, _, crc = _HEADER.unpack_from(data, at)
                size_bytes = length_bytes + _UNCOUNTED_BYTES
                values = self._values.get(crc)
                if values is None or base_offset != len(log) or len(data) - at < size_bytes:
                    return LogOnDisk(log, start)  # Torn; recovery cuts it.
                log += [(epoch, value) for value in values]
                at += size_bytes
        return LogOnDisk(log, start)


def _start_alone(directory: Directory) -> int:
    """Where a log without a segment goes on: all of its records are deleted. A torn file says nothing."""
    file = directory.entries.get("log_start")
    if not isinstance(file, File) or len(file.data) < _START_FILE_SIZE_BYTES:
        return 0
    return int(_START.unpack_from(file.data, _START_FILE_SIZE_BYTES - _START.size)[0])
