"""The operating system's files, as storage sees them: the one seam at which tests make a disk fail.

Rules of this file: each method is one call of the operating system, and raises the OSError that it
raises. `disk_health` turns those into the errors of this package.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from hightide.batch.header import Buffer

__all__ = ["Files", "OsFiles"]

# A link in a data directory comes from an operator or another program: it is not followed.
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Files(Protocol):
    """The file calls that storage makes. Paths are absolute, positions and sizes are in bytes."""

    def open(self, path: str, create: bool) -> int:
        """Open for reading and writing; with `create`, make it where it is missing."""
        ...

    def close(self, fd: int) -> None:
        """Close."""
        ...

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Write the buffers back to back; return how many bytes were written, which may be fewer."""
        ...

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        ...

    def truncate(self, fd: int, size: int) -> None:
        """Cut or extend to `size`."""
        ...

    def sync(self, fd: int) -> None:
        """Bring data and size to disk."""
        ...

    def sync_directory(self, path: str) -> None:
        """Bring the names in a directory to disk."""
        ...

    def size(self, path: str) -> int:
        """Size of a file. Raises FileNotFoundError."""
        ...

    def modified_us(self, path: str) -> int:
        """When a file was last written to, in microseconds since 1970. Raises FileNotFoundError."""
        ...

    def set_modified_us(self, path: str, modified_us: int) -> None:
        """Set the time when a file was last written to. Raises FileNotFoundError."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is anything of this name. An unknown answer is an error, and not the same as no."""
        ...

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted."""
        ...

    def directories(self, path: str) -> list[str]:
        """The names of the directories in a directory, sorted; links are not."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents; do nothing if it exists."""
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename, replacing the target in one step."""
        ...

    def link(self, source: str, target: str) -> None:
        """Give a file a second name. Raises FileExistsError, FileNotFoundError."""
        ...

    def remove(self, path: str) -> None:
        """Remove a name of a file, and the file with its last name."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def lock(self, path: str) -> int:
        """Keep other processes out, until `unlock` or the end of this one. Raises BlockingIOError, whose
        strerror names the process that has the lock."""
        ...

    def unlock(self, fd: int) -> None:
        """Let another process in; once."""
        ...

    def machine_boot(self) -> str:
        """The id of the machine's present boot: unsynced writes of an earlier boot may be lost. Empty if it
        is not known."""
        ...


class OsFiles:
    """The real files."""

    def open(self, path: str, create: bool) -> int:
        """See `Files`."""
        return os.open(path, _OPEN_FLAGS | os.O_CREAT if create else _OPEN_FLAGS, 0o640)

    def close(self, fd: int) -> None:
        """See `Files`."""
        os.close(fd)

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """See `Files`."""
        return os.pwritev(fd, buffers, position)

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        """See `Files`."""
        return os.pread(fd, size, position)

    def truncate(self, fd: int, size: int) -> None:
        """See `Files`."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """See `Files`."""
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise _final(error) from error

    def sync_directory(self, path: str) -> None:
        """See `Files`."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            raise _final(error) from error
        finally:
            os.close(fd)

    def size(self, path: str) -> int:
        """See `Files`."""
        return os.stat(path, follow_symlinks=False).st_size

    def modified_us(self, path: str) -> int:
        """See `Files`."""
        return os.stat(path, follow_symlinks=False).st_mtime_ns // 1000

    def set_modified_us(self, path: str, modified_us: int) -> None:
        """See `Files`."""
        at_ns = max(0, modified_us) * 1000
        os.utime(path, ns=(at_ns, at_ns), follow_symlinks=False)

    def exists(self, path: str) -> bool:
        """See `Files`."""
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def names(self, path: str) -> list[str]:
        """See `Files`."""
        return sorted(os.listdir(path))

    def directories(self, path: str) -> list[str]:
        """See `Files`."""
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def make_directory(self, path: str) -> None:
        """See `Files`."""
        os.makedirs(path, mode=0o750, exist_ok=True)

    def replace(self, source: str, target: str) -> None:
        """See `Files`."""
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """See `Files`."""
        os.link(source, target, follow_symlinks=False)

    def remove(self, path: str) -> None:
        """See `Files`."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """See `Files`."""
        os.rmdir(path)

    def lock(self, path: str) -> int:
        """See `Files`."""
        fd = self._open_to_lock(path)
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            # Naming the process that holds it is a courtesy; a full disk must not keep a broker from serving
            # reads.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                os.close(fd)
                raise
        return fd

    @staticmethod
    def _open_to_lock(path: str) -> int:
        fd = os.open(path, _OPEN_FLAGS | os.O_CREAT, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise BlockingIOError(error.errno, holder, path) from error
        return fd

    def unlock(self, fd: int) -> None:
        """See `Files`."""
        os.close(fd)

    def machine_boot(self) -> str:
        """See `Files`."""
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            return ""  # No Linux.


def _final(error: OSError) -> OSError:
    """The error of a sync, for whatever reason it failed. A write that finds no room can be tried again.
    A sync cannot, because the kernel may have dropped what it was to write."""
    return OSError(errno.EIO, f"a sync failed: {error.strerror}")
