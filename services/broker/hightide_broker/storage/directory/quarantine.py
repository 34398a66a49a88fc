"""Where partitions wait that are no longer assigned here, before they are deleted.

The rule: docs/protocol.md, "Nothing is deleted by omission".

A partition put aside is a directory `<topic id>-<partition>.<microseconds>`, of the data
directory's clock (`ageing`).
"""

from __future__ import annotations

import logging
from typing import Final

from hightide_broker.storage.files.files import Files

__all__ = ["Quarantine"]

log = logging.getLogger(__name__)

_NAME: Final = "quarantine"


class Quarantine:
    """The directory `quarantine` of a data directory. Its methods raise OSError."""

    def __init__(self, files: Files, data_directory: str) -> None:
        self._files = files
        self._data_directory = data_directory
        self._path = f"{data_directory}/{_NAME}"

    def place_for(self, name: str, now_us: int) -> str:
        """The path to which something of this name is moved now."""
        return f"{self._path}/{name}.{now_us}"

    def _free_place_for(self, name: str, now_us: int) -> str:
        """The same, or as soon after as the place is free: what is there may be of the same name and moment,
        since the time is not as exact as its unit."""
        while self._files.exists(self.place_for(name, now_us)):
            now_us += 1
        return self.place_for(name, now_us)

    def take(self, name: str, now_us: int) -> None:
        """Move a directory of the data directory here, in one step that a crash cannot tear."""
        self._files.make_directory(self._path)
        self._files.replace(f"{self._data_directory}/{name}", self._free_place_for(name, now_us))
        self._files.sync_directory(self._path)
        self._files.sync_directory(self._data_directory)

    def delete_expired(self, now_us: int, grace_us: int) -> list[str]:
        """Delete what was put here longer than `grace_us` ago; give the names. What is named by a moment that
        is still to come was put here while the wall clock was wrong: its grace begins now."""
        if not self._files.exists(self._path):
            return []
        deleted = []
        for name in self._files.directories(self._path):
            what, _, since = name.rpartition(".")
            if not (since.isascii() and since.isdigit()):
                continue
            if int(since) > now_us:
                self._files.replace(f"{self._path}/{name}", self._free_place_for(what, now_us))
            elif int(since) < now_us - grace_us and not self._has_others(name):
                for file_name in self._files.names(f"{self._path}/{name}"):
                    self._files.remove(f"{self._path}/{name}/{file_name}")
                self._files.remove_directory(f"{self._path}/{name}")
                deleted.append(name)
        return deleted

    def _has_others(self, name: str) -> bool:
        """Whether somebody has put something of his own there. It stays, with what it is in."""
        others = self._files.directories(f"{self._path}/{name}")
        if others:
            log.warning("%s/%s is kept, because %s is no file of a log", self._path, name, others[0])
        return bool(others)
