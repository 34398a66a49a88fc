"""Files that fail on demand, crash between two calls, and forget what was not synced when the power goes.

A verified fake: every call but for fsync, whose effect is modelled, goes to the real files, in a temporary
directory; what is added is when it fails, and what a power cut leaves. The model of a power cut: of each
file, any prefix that is at least what was synced, or what it was before it was cut, where that was not
synced; of the names of files and directories, any number of the last changes to a directory since it was
synced are undone. What a process did not sync is not synced in the life of the next one either.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from hightide.batch.header import Buffer
from hightide_broker.storage.files.files import OsFiles

T = TypeVar("T")


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
    """A change to a directory that is not synced, and how a power cut undoes it."""

    directory: str
    undo: Callable[[], None]


@dataclass
class CutFile:
    """A file before it was cut: what it held, and how much of that was synced."""

    contents: bytes
    synced: int


class FaultyFiles(OsFiles):
    """Real files with faults."""

    def __init__(self, before: FaultyFiles | None = None) -> None:
        """`before` are those of the process before, which was killed or stopped under power."""
        self.faults: list[Fault] = []
        # Called before each call, with its name and path, on the thread that makes it.
        self.on_call: Callable[[str, str], None] = lambda _call, _path: None
        # How many more changing calls are made before the process dies; None for ever.
        self.crash_in: int | None = None
        self.crashed = False
        self.calls = 0
        self.changes = 0
        self.syncs = 0
        self._paths: dict[int, str] = {}
        self._synced: dict[str, int] = {} if before is None else before._synced
        self._cut: dict[str, CutFile] = {} if before is None else before._cut
        self._names: list[NameChange] = [] if before is None else before._names
        self._boot: int = 1 if before is None else before._boot

    def go_on_from(self, earlier: FaultyFiles) -> None:
        """The process was killed and another one began: what was not synced is not synced yet."""
        self._synced, self._names = dict(earlier._synced), list(earlier._names)

    def _step(self, call: str, path: str) -> Fault | None:
        """Before every call: die or fail where that was asked for."""
        self.on_call(call, path)
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
            self._changed_name(path, partial(remove_if_there, path))
        return fd

    def _changed_name(self, path: str, undo: Callable[[], None]) -> None:
        self._names.append(NameChange(os.path.dirname(path), undo))

    def machine_boot(self) -> str:
        return f"boot-{self._boot}"

    def make_directory(self, path: str) -> None:
        self._step("make_directory", path)
        if not os.path.lexists(path):
            self._changed_name(path, partial(shutil.rmtree, path, ignore_errors=True))
        super().make_directory(path)

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
        now = os.path.getsize(path)
        synced = self._synced.get(path, now)
        if size < now and path not in self._cut:
            self._cut[path] = CutFile(Path(path).read_bytes(), synced)
        super().truncate(fd, size)
        self._synced[path] = min(synced, size)

    def sync(self, fd: int) -> None:
        path = self._paths[fd]
        self._step("sync", path)
        self.syncs += 1
        self._synced[path] = os.fstat(fd).st_size  # The file may have lost its name.
        self._cut.pop(path, None)

    def sync_directory(self, path: str) -> None:
        self._step("sync_directory", path)
        self._names = [change for change in self._names if change.directory != path]

    def replace(self, source: str, target: str) -> None:
        self._step("replace", target)
        if os.path.isdir(source):
            self._changed_name(target, partial(move_back, target, source))
            self._synced = moved(self._synced, source, target)
            self._cut = moved(self._cut, source, target)
        elif os.path.isfile(source):
            before = Path(target).read_bytes() if os.path.lexists(target) else None
            self._changed_name(target, partial(write_back, target, before))
            self._synced.pop(target, None)
            self._cut.pop(target, None)
            if source in self._synced:
                self._synced[target] = self._synced.pop(source)
        super().replace(source, target)

    def link(self, source: str, target: str) -> None:
        self._step("link", target)
        self._changed_name(target, partial(remove_if_there, target))
        super().link(source, target)

    def remove(self, path: str) -> None:
        self._step("remove", path)
        self._changed_name(path, partial(write_back, path, Path(path).read_bytes()))
        self._synced.pop(path, None)
        self._cut.pop(path, None)
        super().remove(path)

    def cut_power(self, random: Random) -> None:
        """What is on disk after a power cut; nothing may use the files any more."""
        self.crashed = True
        for path, synced in self._synced.items():
            if not os.path.isfile(path):
                continue
            cut = self._cut.get(path)
            if cut is not None and random.random() < 0.5:
                Path(path).write_bytes(cut.contents[: random.randint(cut.synced, len(cut.contents))])
            else:
                os.truncate(path, random.randint(synced, max(synced, os.path.getsize(path))))
        for change in reversed(self._names[random.randint(0, len(self._names)) :]):
            change.undo()
        self._boot += 1
        self._synced.clear()
        self._cut.clear()
        self._names.clear()


def moved(known: dict[str, T], source: str, target: str) -> dict[str, T]:
    """What is known of files, after a directory was moved."""
    return {
        target + path.removeprefix(source) if path.startswith(f"{source}/") else path: each
        for path, each in known.items()
    }


def remove_if_there(path: str) -> None:
    """The file was never made."""
    if os.path.isfile(path):
        os.unlink(path)


def write_back(path: str, contents: bytes | None) -> None:
    """The name leads to what it led to before, if its directory is there."""
    if contents is None:
        remove_if_there(path)
    elif os.path.isdir(os.path.dirname(path)):
        Path(path).write_bytes(contents)


def move_back(path: str, before: str) -> None:
    """The directory was never moved."""
    if os.path.isdir(path):
        os.replace(path, before)
