"""The start of a log: the file `log_start` beside the segments.

An operator may delete records up to any offset (KIP-107), but segments are deleted as a whole. The file says
below which offset the remaining records must not be read. It is written before a segment is deleted, so a
first segment that begins after it shows that an earlier one is missing. Without the file the log begins at 0.

What else says where the log begins is the log's mark, and the checkpoints, which are up to 5 s old. So after
a power cut the file counts: after an unclean election the log may have begun anew further down, and a log
that is empty at its old start would lack what its leader has below, and nobody would notice.
"""

from __future__ import annotations

import errno
import logging
import struct
import threading
from typing import Final

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.sealed_file import read_file, seal, unseal, write_whole

__all__ = ["StartFile"]

log = logging.getLogger(__name__)

_MAGIC: Final = b"HTLS"
_VERSION: Final = 1
_OFFSET: Final = struct.Struct("<q")
_NAME: Final = "log_start"


class StartFile:
    """The file of one log. Methods raise OSError."""

    __slots__ = ("_files", "_path", "is_durable", "lock", "noted", "offset", "wanted")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{_NAME}"
        self.offset = 0
        """The start in the file; 0 if there is none."""
        self.noted = 0
        """The start in the log's mark, where there was no room for it in the file."""
        self.wanted = 0
        """The start to write."""
        self.is_durable = True
        """Whether no power cut takes the file."""
        self.lock = threading.Lock()
        """Held while the file is written, unlike the log's lock; taken after the log's lock, never before
        it."""

    @property
    def recorded(self) -> int:
        """The start that is recorded, in the file or in the log's mark."""
        return max(self.offset, self.noted)

    def load(self, elsewhere: int, *, is_current: bool, may_be_unsynced: bool) -> None:
        """Read the file. `elsewhere` is the start that was recorded elsewhere. If the file is damaged or
        missing, the log begins there, and the file is written again with it; also if it begins earlier by the
        file, and what was recorded elsewhere is of the end of the last process (`is_current`).
        `may_be_unsynced`: that process was killed."""
        try:
            found = self._read()
        except CorruptFile as error:
            log.error("%s is damaged (%s): the log begins at %d", self._path, error, elsewhere)
            found = None
        if found is not None:
            self.offset = found
            self.is_durable = found == 0 or not may_be_unsynced
        if self.offset < elsewhere and (found is None or is_current):
            self.begin_at(elsewhere)

    def _read(self) -> int | None:
        if not self._files.exists(self._path):
            return None
        contents = unseal(_MAGIC, _VERSION, read_file(self._files, self._path))
        if len(contents) != _OFFSET.size:
            raise CorruptFile(f"it holds {len(contents)} bytes, not {_OFFSET.size}")
        return max(0, int(_OFFSET.unpack(contents)[0]))

    def write(self) -> None:
        """Write the wanted start durably, unless the file has it. Called in a thread."""
        with self.lock:
            if self.wanted > self.offset:
                self._write(self.wanted, durable=True)

    def begin_at(self, offset: int) -> None:
        """Prepare for a log that begins anew at `offset`. Called with the lock held, or before any other
        thread knows the log.

        If that is lower, it is durable: the file must not hide records appended from there on. If it is
        higher, it is not durable before `sync`: to recovery, a log that lacks it has lost its front. On a
        full disk it is written later then, and the log's mark has it (`recorded`)."""
        if offset < self.offset:
            self._write(offset, durable=True)
        elif offset > self.offset:
            try:
                self._write(offset, durable=False)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
        self.noted = offset
        self.wanted = offset

    def sync(self) -> None:
        """Let no power cut take the file. Called before records above the start count as durable: without
        it, the log would seem to lack all that was deleted. In a thread."""
        with self.lock:
            if self.is_durable:
                return
            fd = self._files.open(self._path, create=False)
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            self._files.sync_directory(self._path.rpartition("/")[0])
            self.is_durable = True

    def _write(self, offset: int, *, durable: bool) -> None:
        contents = seal(_MAGIC, _VERSION, _OFFSET.pack(offset))
        write_whole(self._files, self._path, contents, durable=durable)
        self.offset = offset
        self.is_durable = durable
