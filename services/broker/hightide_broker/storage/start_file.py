"""Where a log begins, if that is not where its first segment does: the file `log_start` beside the segments.

An operator lets go of records at any offset (KIP-107); segments are deleted as a whole. The file says below
which offset nobody may read what is still there. Without it the log begins with its first segment.
"""

from __future__ import annotations

import logging
import struct
import threading
from typing import Final

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files import Files
from hightide_broker.storage.sealed_file import read_file, seal, unseal, write_whole

__all__ = ["StartFile"]

log = logging.getLogger(__name__)

_MAGIC: Final = b"HTLS"
_VERSION: Final = 1
_OFFSET: Final = struct.Struct("<q")
_NAME: Final = "log_start"


class StartFile:
    """The file of one log. Methods raise OSError."""

    __slots__ = ("_files", "_path", "lock", "offset", "wanted")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{_NAME}"
        self.offset = 0
        """What the file says; 0 where there is none."""
        self.wanted = 0
        """What it shall say."""
        self.lock = threading.Lock()
        """Held while it is written, which the log's lock is not; taken after that one, never before."""

    def load(self) -> None:
        """Read it. One that is damaged counts for nothing: what was let go of is there again, and that is
        all that can come of it."""
        if not self._files.exists(self._path):
            return
        try:
            contents = unseal(_MAGIC, _VERSION, read_file(self._files, self._path))
            if len(contents) != _OFFSET.size:
                raise CorruptFile(f"it holds {len(contents)} bytes, not {_OFFSET.size}")
        except CorruptFile as error:
            log.error("%s is damaged (%s): the log begins with its first segment", self._path, error)
            return
        (offset,) = _OFFSET.unpack(contents)
        self.offset = max(0, offset)

    def write(self) -> None:
        """Write durably what is wanted, if it does not say so. Called in a thread."""
        with self.lock:
            wanted = self.wanted
            if wanted > self.offset:
                contents = seal(_MAGIC, _VERSION, _OFFSET.pack(wanted))
                write_whole(self._files, self._path, contents, durable=True)
                self.offset = wanted

    def forget_above(self, offset: int) -> None:
        """The log begins anew at `offset`: the file must not hide what is appended from there on. Called
        with the lock held."""
        self.wanted = 0
        if self.offset > offset:
            self._files.remove(self._path)
            self._files.sync_directory(self._path.rpartition("/")[0])
            self.offset = 0
