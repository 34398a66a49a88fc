"""Where files wait before they are deleted.

These are partitions that are no longer assigned here, what recovery cut off, and damaged segments that were
written anew.

The rule: docs/protocol.md, "Nothing is deleted by omission".

Each is a directory: a partition put aside is `<topic id>-<partition>.<microseconds>`, of the data directory's
clock (`ageing`), what was cut off `<topic id>-<partition>.cut.<microseconds>`, and a damaged segment
`<topic id>-<partition>.damaged.<microseconds>`.
"""

from __future__ import annotations

import errno
import logging
from typing import Final

from hightide_broker.storage.files.files import Files

__all__ = ["Quarantine"]

log = logging.getLogger(__name__)

_NAME: Final = "quarantine"
_DAMAGED: Final = ".damaged"
_DAMAGED_MAX: Final = 8
"""A disk that fails must not fill itself with copies of what it damages."""
_NOT_KEPT: Final = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
)
"""There is no room for a name, or the file system gives a file no second one."""


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

    def keep_damaged(self, path: str, now_us: int) -> str | None:
        """Give a damaged segment of a log a second name here, before another file takes its first one. Gives
        the new path; None, and a reason in the broker's log, where eight damaged segments wait here already,
        or the file system refuses. The mending is worth more than what it replaces."""
        directory, _, file_name = path.rpartition("/")
        log_name = directory.rpartition("/")[2]
        waiting = [each for each in self._names() if f"{_DAMAGED}." in each]
        if len(waiting) >= _DAMAGED_MAX:
            log.warning(
                "the damaged %s is not kept: %d damaged segments are in %s already; look at them, and "
                "delete those that you do not need", path, len(waiting), self._path,
            )  # fmt: skip
            return None
        place = self._free_place_for(log_name + _DAMAGED, now_us)
        try:
            self._files.make_directory(place)
            self._files.link(path, f"{place}/{file_name}")
        except OSError as error:
            if error.errno not in _NOT_KEPT:
                raise
            if self._files.exists(place):
                self._files.remove_directory(place)  # Else it would count as a segment that is kept.
            log.warning("the damaged %s is not kept in %s: %s", path, self._path, error)
            return None
        for each in (place, self._path, self._data_directory):
            self._files.sync_directory(each)
        return f"{place}/{file_name}"

    def delete_expired(self, now_us: int, grace_us: int) -> list[str]:
        """Delete what was put here longer than `grace_us` ago; give the names. What is named by a moment that
        is still to come was put here while the wall clock was wrong: its grace begins now."""
        deleted = []
        for name in self._names():
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

    def _names(self) -> list[str]:
        """Of what waits here."""
        return self._files.directories(self._path) if self._files.exists(self._path) else []

    def _has_others(self, name: str) -> bool:
        """Whether somebody has put something of his own there. It stays, with what it is in."""
        others = self._files.directories(f"{self._path}/{name}")
        if others:
            log.warning("%s/%s is kept, because %s is no file of a log", self._path, name, others[0])
        return bool(others)
