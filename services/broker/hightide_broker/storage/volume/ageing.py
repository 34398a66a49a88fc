"""The clock by which the records of a data directory grow old.

Theory of operation. A wall clock may be wrong and may jump, and records that were deleted because of it do
not come back. So a data directory has a time of its own. It begins at the wall clock's time when the
directory is new. From then on it moves only by the kernel's count since the machine booted, which nobody can
set. Every few minutes it is stored with that count. So after a stop of the broker it continues at the right
time, however long the broker was down, unless the machine has booted anew. After another boot nobody knows
for certain how long the machine was off: the time continues where it was stored last, and records are kept
that much longer. This clock never runs fast, so nothing is deleted early.

A directory without this file is of an older version, or an operator removed the file. It cannot be older than
the last change in it, and its time begins there.
"""

from __future__ import annotations

import logging
import struct
import time
from dataclasses import dataclass
from typing import Final, Protocol

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.sealed_file import read_file, seal, unseal, write_whole

__all__ = ["AgeingClock", "KernelTime", "MachineTime"]

log = logging.getLogger(__name__)

_NAME: Final = "ageing"
_MAGIC: Final = b"HTAG"
_VERSION: Final = 1
_STAMP: Final = struct.Struct("<qq")
_STAMP_INTERVAL_US: Final = 10 * 60 * 1_000_000
"""How much time another boot of the machine may lose, besides the time that it was off."""


class MachineTime(Protocol):
    """The machine's clocks: two methods. `KernelTime` is the real one."""

    def wall_us(self) -> int:
        """Microseconds since 1970, as far as the machine knows."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since the machine booted, in all processes. Never goes back, never jumps."""
        ...


class KernelTime:
    """The machine's own clocks."""

    __slots__ = ()

    def wall_us(self) -> int:
        """See `MachineTime`."""
        return time.time_ns() // 1000

    def monotonic_ms(self) -> int:
        """See `MachineTime`."""
        return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The stored record: the directory's time, and the machine's count at that moment."""

    now_us: int
    uptime_us: int
    boot_id: str

    def encode(self) -> bytes:
        return seal(_MAGIC, _VERSION, _STAMP.pack(self.now_us, self.uptime_us) + self.boot_id.encode())

    @classmethod
    def decode(cls, data: bytes) -> _Stamp:
        contents = unseal(_MAGIC, _VERSION, data)
        if len(contents) < _STAMP.size:
            raise CorruptFile(f"the file holds {len(contents)} bytes, too few for a moment")
        now_us, uptime_us = _STAMP.unpack_from(contents)
        return cls(now_us, uptime_us, bytes(contents[_STAMP.size :]).decode(errors="replace"))


class AgeingClock:
    """The time of one data directory; made by `open`, before anything in it is changed. Any thread may ask
    for the time; one at a time writes it down."""

    __slots__ = ("_began_us", "_files", "_machine", "_path", "written_us")

    def __init__(self, files: Files, path: str, machine: MachineTime, now_us: int, written_us: int) -> None:
        self._files = files
        self._path = path
        self._machine = machine
        self._began_us = now_us - machine.monotonic_ms() * 1000
        self.written_us = written_us
        """The time that was written down last, by this life of the broker or the one before; -1 where there
        is none. Whatever was not on disk then was written later."""

    @classmethod
    def open(cls, files: Files, directory: str, machine: MachineTime) -> AgeingClock:
        """That of a directory, which may be new. Raises OSError."""
        path = f"{directory}/{_NAME}"
        stamp = _read(files, path)
        if stamp is None:
            changed = [files.modified_us(f"{directory}/{name}") for name in files.names(directory)]
            return cls(files, path, machine, min(machine.wall_us(), max(changed, default=2**62)), -1)
        now_us, boot_id = stamp.now_us, files.machine_boot()
        if boot_id and boot_id == stamp.boot_id:
            now_us += max(0, machine.monotonic_ms() * 1000 - stamp.uptime_us)
        else:
            log.info(
                "the machine has booted since records in %s were last looked at: the time that it was off "
                "does not make them older",
                directory,
            )
        return cls(files, path, machine, now_us, stamp.now_us)

    def now_us(self) -> int:
        """The directory's time, in microseconds; about those since 1970 where the wall was never wrong."""
        return self._began_us + self._machine.monotonic_ms() * 1000

    def write(self, *, at_once: bool = False) -> None:
        """Write the time down durably, where the last time was minutes ago or `at_once`. Raises OSError: then
        a later call does it, and until then a boot of the machine forgets more."""
        uptime_us = self._machine.monotonic_ms() * 1000
        now_us = self._began_us + uptime_us
        if self.written_us >= 0 and now_us - self.written_us < _STAMP_INTERVAL_US and not at_once:
            return
        stamp = _Stamp(now_us, uptime_us, self._files.machine_boot())
        write_whole(self._files, self._path, stamp.encode(), durable=True)
        self.written_us = now_us


def _read(files: Files, path: str) -> _Stamp | None:
    if not files.exists(path):
        return None
    try:
        return _Stamp.decode(read_file(files, path))
    except CorruptFile as error:
        log.warning("%s is damaged (%s): ageing goes on at the last change in its directory", path, error)
        return None
