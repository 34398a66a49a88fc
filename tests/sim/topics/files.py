"""Files in memory, as storage sees them: what a crash keeps, and what a power cut takes.

Theory of operation. A disk is a tree of directories and files, and outlives the processes that use it; each
life of a process has `MemoryFiles` of its own over it, which end with it. A write, a truncation and a change
of a name are there at once for everybody, and on disk once they are synced: of a file what was done to it
since, of the names all that was done to their directory since, is on disk up to some moment only when the
power goes; the last write may be torn. Some disks write names back late, and in any order: then of each name
what was done to it since is on disk up to some moment of its own.

A directory may have room for a few bytes only. What is removed or cut gives room, as on a disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from hightide.batch.header import Buffer

_TRUNCATED: Final = -1
_NAME_BYTES: Final = 64
"""What a new name takes."""


class File:
    """One file; it may have several names, or have lost its name."""

    __slots__ = ("data", "durable", "homes", "modified_us", "unsynced")

    def __init__(self) -> None:
        self.homes: list[Directory] = []
        """Where it has its names."""
        self.data = bytearray()
        self.durable = b""
        self.unsynced: list[tuple[int, bytes | int]] = []
        """(position, what was written there), or (_TRUNCATED, size), since it was synced."""
        self.modified_us = 0

    def change(self, position: int, what: bytes | int) -> None:
        """Write, or truncate."""
        self.unsynced.append((position, what))
        _apply(self.data, position, what)
        self._is_another()

    def _is_another(self) -> None:
        for home in self.homes:
            home.version += 1

    def sync(self) -> None:
        """All of it is on disk."""
        self.durable = bytes(self.data)
        self.unsynced.clear()

    def cut_power(self, random: Random) -> None:
        """What had not reached the disk is gone."""
        kept = random.randint(0, len(self.unsynced))
        data = bytearray(self.durable)
        for position, what in self.unsynced[:kept]:
            _apply(data, position, what)
        if kept < len(self.unsynced):
            position, what = self.unsynced[kept]
            if isinstance(what, bytes):
                _apply(data, position, what[: random.randint(0, len(what))])
        self.data = data
        self.sync()
        self._is_another()


class Directory:
    """One directory."""

    __slots__ = ("entries", "modified_us", "version")

    def __init__(self) -> None:
        self.modified_us = 0
        self.entries: dict[str, File | Directory] = {}
        self.version = 0
        """It grows whenever a name or a file in it changes."""


Change = tuple[tuple[Directory, str, File | Directory | None], ...]
"""The names that one call changed, and what each led to before."""


class MemoryDisk:
    """What survives the processes of one machine."""

    def __init__(self, directories: Sequence[str]) -> None:
        """`directories` were made long ago."""
        self.root = Directory()
        self.boots = 1
        self.changes = 0
        """It grows with each."""
        self.room: dict[str, int] = {}
        """Of the directories that are nearly full, how many bytes find room below them."""
        self._unsynced: list[Change] = []
        self._files: dict[File, None] = {}
        """Those that are not synced."""
        for path in directories:
            MemoryFiles(self, lambda: 0).make_directory(path)
        self._unsynced.clear()

    def find(self, path: str) -> File | Directory | None:
        """What is there; None where that is nothing."""
        node: File | Directory | None = self.root
        for name in path.strip("/").split("/"):
            node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def files_below(self, path: str) -> Iterator[tuple[str, File]]:
        """All files below a directory."""
        node = self.find(path)
        if isinstance(node, File):
            yield path, node
        elif node is not None:
            for name in sorted(node.entries):
                yield from self.files_below(f"{path}/{name}")

    def touched(self, file: File) -> None:
        """It is not all on disk any more."""
        self.changes += 1
        self._files[file] = None

    def synced(self, file: File) -> None:
        """It is."""
        file.sync()
        self._files.pop(file, None)

    def name(self, *changes: tuple[Directory, str, File | Directory | None]) -> None:
        """Have these names lead there, all at once; None: nowhere."""
        self.changes += 1
        self._unsynced.append(tuple((where, name, where.entries.get(name)) for where, name, _ in changes))
        for change in changes:
            _set(*change)

    def names_synced(self, directory: Directory) -> None:
        """The names in a directory are on disk."""
        self._unsynced = [
            change for change in self._unsynced if all(where is not directory for where, _, _ in change)
        ]

    def settle(self) -> None:
        """All of it is on disk: time has passed."""
        for file in self._files:
            file.sync()
        self._files.clear()
        self._unsynced.clear()

    def cut_power(self, random: Random) -> None:
        """The machine goes down, and comes up. Nothing may use it meanwhile."""
        self.boots += 1
        self.changes += 1
        for file in self._files:
            file.cut_power(random)
        self._files.clear()
        for change in reversed(self._undone(random)):
            for before in change:
                _set(*before)
        self._unsynced.clear()

    def _undone(self, random: Random) -> list[Change]:
        """The changes of names that are not on disk: all since some moment; or any, each with all later ones
        of the same names."""
        if random.random() < 0.5:
            return self._unsynced[random.randint(0, len(self._unsynced)) :]
        odds = random.random()
        undone: list[Change] = []
        names: set[tuple[Directory, str]] = set()
        for change in self._unsynced:
            touched = {(where, name) for where, name, _ in change}
            if random.random() < odds or names & touched:
                undone.append(change)
                names |= touched
        return undone

    def take_room(self, path: str, size_bytes: int) -> int:
        """How many of these bytes find room there, which is taken."""
        for above, room in self.room.items():
            if path.startswith(above):
                taken = min(room, size_bytes)
                self.room[above] = room - taken
                return taken
        return size_bytes

    def give_room(self, path: str, size_bytes: int) -> None:
        """So many bytes are gone."""
        for above in self.room:
            if path.startswith(above):
                self.room[above] += size_bytes


class MemoryFiles:
    """The files of one life of a process (`storage.files.Files`)."""

    def __init__(self, disk: MemoryDisk, wall_us: Callable[[], int]) -> None:
        self._disk = disk
        self._wall_us = wall_us
        self.ended = False
        """The process is dead: whatever of it still moves reaches nothing."""
        self.broken: set[str] = set()
        """Directories below which every call fails."""
        self._open: dict[int, tuple[str, File]] = {}
        self._locked: dict[int, str] = {}
        self._next_fd = 3

    # --- files -----------------------------------------------------------------------------------

    def open(self, path: str, create: bool) -> int:
        self._check(path)
        above, name = self._above(path)
        file = above.entries.get(name)
        if file is None:
            if not create:
                raise _error(errno.ENOENT, path)
            self._take_name(path)
            file = File()
            file.modified_us = self._wall_us()
            self._disk.name((above, name, file))
        if isinstance(file, Directory):
            raise _error(errno.EISDIR, path)
        fd, self._next_fd = self._next_fd, self._next_fd + 1
        self._open[fd] = (path, file)
        return fd

    def close(self, fd: int) -> None:
        del self._open[fd]

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        path, file = self._open[fd]
        self._check(path)
        written = b"".join(buffers)
        grows_by = max(0, position + len(written) - len(file.data))
        lacking = grows_by - self._disk.take_room(path, grows_by)
        if lacking and lacking >= len(written):
            raise _error(errno.ENOSPC, path)
        written = written[: len(written) - lacking]
        file.change(position, written)
        file.modified_us = self._wall_us()
        self._disk.touched(file)
        return len(written)

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        path, file = self._open[fd]
        self._check(path)
        return bytes(file.data[position : position + size])

    def truncate(self, fd: int, size: int) -> None:
        path, file = self._open[fd]
        self._check(path)
        self._disk.give_room(path, max(0, len(file.data) - size))
        file.change(_TRUNCATED, size)
        file.modified_us = self._wall_us()
        self._disk.touched(file)

    def sync(self, fd: int) -> None:
        path, file = self._open[fd]
        self._check(path)
        self._disk.synced(file)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def modified_us(self, path: str) -> int:
        return self._node(path).modified_us

    def set_modified_us(self, path: str, modified_us: int) -> None:
        self._node(path).modified_us = modified_us

    # --- names -----------------------------------------------------------------------------------

    def sync_directory(self, path: str) -> None:
        self._disk.names_synced(self._directory(path))

    def exists(self, path: str) -> bool:
        self._check(path)
        return self._disk.find(path) is not None

    def names(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def directories(self, path: str) -> list[str]:
        entries = self._directory(path).entries
        return sorted(name for name, node in entries.items() if isinstance(node, Directory))

    def make_directory(self, path: str) -> None:
        self._check(path)
        at = self._disk.root
        for name in path.strip("/").split("/"):
            found = at.entries.get(name)
            if found is None:
                self._take_name(path)
                found = Directory()
                found.modified_us = self._wall_us()
                self._disk.name((at, name, found))
            if isinstance(found, File):
                raise _error(errno.EEXIST, path)
            at = found

    def replace(self, source: str, target: str) -> None:
        self._check(source)
        (above, name), (new_above, new_name) = self._above(source), self._above(target)
        node, old = above.entries.get(name), new_above.entries.get(new_name)
        if node is None:
            raise _error(errno.ENOENT, source)
        if isinstance(old, Directory) and old.entries:
            raise _error(errno.ENOTEMPTY, target)
        if isinstance(old, File):
            self._give_name(target, old)
        self._disk.name((above, name, None), (new_above, new_name, node))

    def link(self, source: str, target: str) -> None:
        file, (above, name) = self._file(source), self._above(target)
        if name in above.entries:
            raise _error(errno.EEXIST, target)
        self._take_name(target)
        self._disk.name((above, name, file))

    def remove(self, path: str) -> None:
        self._give_name(path, self._file(path))
        self._disk.name((*self._above(path), None))

    def remove_directory(self, path: str) -> None:
        if self._directory(path).entries:
            raise _error(errno.ENOTEMPTY, path)
        self._disk.name((*self._above(path), None))

    # --- the machine -----------------------------------------------------------------------------

    def lock(self, path: str) -> int:
        fd = self.open(path, create=True)
        if path in self._locked.values():
            raise BlockingIOError(errno.EAGAIN, "this one", path)
        self._locked[fd] = path
        return fd

    def unlock(self, fd: int) -> None:
        del self._locked[fd]
        self.close(fd)

    def machine_boot(self) -> str:
        return f"boot-{self._disk.boots}"

    # ---------------------------------------------------------------------------------------------

    def _take_name(self, path: str) -> None:
        if self._disk.take_room(path, _NAME_BYTES) < _NAME_BYTES:
            raise _error(errno.ENOSPC, path)

    def _give_name(self, path: str, file: File) -> None:
        """A file loses a name, and with its last one what it holds."""
        self._disk.give_room(path, _NAME_BYTES + (len(file.data) if len(file.homes) == 1 else 0))

    def _check(self, path: str) -> None:
        if self.ended or any(path.startswith(each) for each in self.broken):
            raise _error(errno.EIO, path)

    def _above(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rpartition("/")
        return self._directory(above), name

    def _node(self, path: str) -> File | Directory:
        self._check(path)
        node = self._disk.find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._node(path)
        if isinstance(node, File):
            raise _error(errno.ENOTDIR, path)
        return node

    def _file(self, path: str) -> File:
        node = self._node(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return node


def _apply(data: bytearray, position: int, what: bytes | int) -> None:
    if isinstance(what, int):
        if what < len(data):
            del data[what:]
        else:
            data.extend(bytes(what - len(data)))
        return
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(what)] = what


def _set(where: Directory, name: str, node: File | Directory | None) -> None:
    where.version += 1
    before = where.entries.pop(name, None)
    if isinstance(before, File):
        before.homes.remove(where)
    if node is not None:
        where.entries[name] = node
        if isinstance(node, File):
            node.homes.append(where)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
