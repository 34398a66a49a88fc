"""Files that fail on demand, crash between two calls, and forget what was not synced when the power goes.

A verified fake: every call but for fsync, whose effect is modelled, goes to the real files, in a temporary
directory; what is added is when it fails, and what a power cut leaves. The model of a power cut: of each
file, any prefix that is at least what was synced; of the names, any number of the last changes to a
directory since it was synced are undone. A truncation is on disk at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hightide.batch.header import Buffer
from hightide_broker.storage.files import OsFiles


class SimulatedCrash(BaseException):
    """The process dies here. No handler of errors may catch it."""


@dataclass
class Fault:
    """The call of this name, on a path that contains `where`, fails with `errno` after `passing` calls."""

    call: str
    errno: int
    where: str = ""
    passing: int = 0
    # How much of a write is done before it fails.
    partial_bytes: int = 0
    lasting: bool = False


@dataclass
class NameChange:
    """A change to a directory that is not synced: `before` is what the name led to, None where to nothing."""

    directory: str
    path: str
    before: bytes | None


class FaultyFiles(OsFiles):
    """Real files with faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        # How many more changing calls are made before the process dies; None for ever.
        self.crash_in: int | None = None
        self.crashed = False
        self.calls = 0
        self.changes = 0
        self.syncs = 0
        self._paths: dict[int, str] = {}
        self._synced: dict[str, int] = {}
        self._names: list[NameChange] = []

    def go_on_from(self, earlier: FaultyFiles) -> None:
        """The process was killed and another one began: what was not synced is not synced yet."""
        self._synced, self._names = dict(earlier._synced), list(earlier._names)

    def _step(self, call: str, path: str) -> Fault | None:
        """Before every call: die or fail where that was asked for."""
        if self.crashed:
            raise SimulatedCrash
        self.calls += 1
        if call not in ("read_at", "open", "close"):
            self.changes += 1
            if self.crash_in is not None:
                if self.crash_in == 0:
                    self.crashed = True
                    raise SimulatedCrash
                self.crash_in -= 1
        for fault in self.faults:
            if fault.call == call and fault.where in path:
                if fault.passing:
                    fault.passing -= 1
                    continue
                if not fault.lasting:
                    self.faults.remove(fault)
                if fault.partial_bytes and call == "write_at":
                    return fault
                raise OSError(fault.errno, os.strerror(fault.errno), path)
        return None

    def open(self, path: str, create: bool) -> int:
        self._step("open", path)
        is_new = create and not os.path.lexists(path)
        fd = super().open(path, create)
        self._paths[fd] = path
        if is_new:
            self._synced[path] = 0
            self._names.append(NameChange(os.path.dirname(path), path, None))
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        super().close(fd)

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        path = self._paths[fd]
        fault = self._step("write_at", path)
        self._synced.setdefault(path, os.path.getsize(path))
        # An overwrite of what was synced is as unsynced as anything.
        self._synced[path] = min(self._synced[path], position)
        if fault is not None:
            self.faults.append(Fault("write_at", fault.errno, fault.where))
            return super().write_at(fd, [b"".join(buffers)[: fault.partial_bytes]], position)
        return super().write_at(fd, buffers, position)

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        self._step("read_at", self._paths[fd])
        return super().read_at(fd, size, position)

    def truncate(self, fd: int, size: int) -> None:
        path = self._paths[fd]
        self._step("truncate", path)
        super().truncate(fd, size)
        if path in self._synced:
            self._synced[path] = min(self._synced[path], size)

    def sync(self, fd: int) -> None:
        path = self._paths[fd]
        self._step("sync", path)
        self.syncs += 1
        self._synced[path] = os.path.getsize(path)

    def sync_directory(self, path: str) -> None:
        self._step("sync_directory", path)
        self._names = [change for change in self._names if change.directory != path]

    def replace(self, source: str, target: str) -> None:
        self._step("replace", target)
        if os.path.isfile(source):
            before = Path(target).read_bytes() if os.path.lexists(target) else None
            self._names.append(NameChange(os.path.dirname(target), target, before))
            if source in self._synced:
                self._synced[target] = self._synced.pop(source)
        super().replace(source, target)

    def remove(self, path: str) -> None:
        self._step("remove", path)
        self._names.append(NameChange(os.path.dirname(path), path, Path(path).read_bytes()))
        self._synced.pop(path, None)
        super().remove(path)

    def cut_power(self, random: Random) -> None:
        """What is on disk after a power cut; nothing may use the files any more."""
        self.crashed = True
        for path, synced in self._synced.items():
            if os.path.isfile(path):
                os.truncate(path, random.randint(synced, max(synced, os.path.getsize(path))))
        for change in reversed(self._names[random.randint(0, len(self._names)) :]):
            if change.before is not None and os.path.isdir(change.directory):
                Path(change.path).write_bytes(change.before)
            elif os.path.isfile(change.path):
                os.unlink(change.path)
