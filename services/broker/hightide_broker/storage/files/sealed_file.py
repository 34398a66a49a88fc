"""Small files that are written whole: a magic, a version, a size and a CRC before their content.

A crash can leave the old file, the new one, or, if it was not synced, one whose seal is broken; never one
that can be read and is wrong.
"""

from __future__ import annotations

import struct
from typing import Final

from hightide.batch.checksum import crc32c

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.files import Files

__all__ = ["TEMPORARY_SUFFIX", "read_file", "seal", "unseal", "write_new", "write_whole"]

TEMPORARY_SUFFIX: Final = ".tmp"
_SEAL: Final = struct.Struct("<4sIII")


def seal(magic: bytes, version: int, contents: bytes) -> bytes:
    """The bytes of the file."""
    assert len(magic) == 4
    return _SEAL.pack(magic, version, len(contents), crc32c(contents)) + contents


def unseal(magic: bytes, version: int, data: bytes) -> memoryview:
    """The content of the file. Raises CorruptFile if anything is wrong with it."""
    if len(data) < _SEAL.size:
        raise CorruptFile(f"the file has {len(data)} bytes, too few for its header")
    found_magic, found_version, size, crc = _SEAL.unpack_from(data)
    if found_magic != magic:
        raise CorruptFile(f"the file starts with {found_magic!r}, not with {magic!r}")
    if found_version != version:
        raise CorruptFile(f"the file has version {found_version}; this broker reads version {version}")
    contents = memoryview(data)[_SEAL.size :]
    if size != len(contents) or crc != crc32c(contents):
        raise CorruptFile("the file's size or CRC is not what its header says")
    return contents


def read_file(files: Files, path: str) -> bytes:
    """A whole small file. Raises FileNotFoundError and other OSErrors."""
    fd = files.open(path, create=False)
    try:
        size = files.size(path)
        return files.read_at(fd, size, 0)
    finally:
        files.close(fd)


def write_new(files: Files, path: str, data: bytes) -> None:
    """Make a file that does not exist yet, with content that can be rebuilt or is not essential. Raises
    OSError."""
    fd = files.open(path, create=True)
    try:
        _write_from_start(files, fd, data)
    finally:
        files.close(fd)


def write_whole(files: Files, path: str, data: bytes, durable: bool) -> None:
    """Replace a file in one step: write beside it, fsync, rename, fsync the directory. Raises OSError.

    Without `durable` the two fsyncs are left out, which is enough for content that can be rebuilt.
    """
    temporary = path + TEMPORARY_SUFFIX
    fd = files.open(temporary, create=True)
    try:
        _write_from_start(files, fd, data)
        if durable:
            files.sync(fd)
    finally:
        files.close(fd)
    files.replace(temporary, path)
    if durable:
        files.sync_directory(path.rpartition("/")[0])


def _write_from_start(files: Files, fd: int, data: bytes) -> None:
    files.truncate(fd, 0)
    written = 0
    while written < len(data):
        written += files.write_at(fd, [memoryview(data)[written:]], written)
