"""The archive of ZooKeeper's classes in the format of the JVM's memory, a file in the virtual environment.

A third of the processor time of a ZooKeeper's start is spent on reading and checking classes. With the
archive (class data sharing) the JVM maps them instead. `make setup` writes it, by `python -m
hightide_local.processes.making_class_archive`. ZooKeeper also starts without one, or with one that the JVM
does not accept.
"""

import hashlib
import os
import sys
from pathlib import Path


def archive_directory() -> Path | None:
    """The directory of archives, in the virtual environment of this Python.

    None if it does not run in one, since the files of the machine's Python must not be changed.
    """
    return None if sys.prefix == sys.base_prefix else Path(sys.prefix, "var", "hightide")


def archive_path(directory: Path, java: Path, class_path: str) -> Path:
    """The path of the archive of these classes for this JVM. The file need not exist.

    The name depends on each jar and on the JVM, since a JVM refuses the archive of another one. Raises
    OSError if one of them does not exist.
    """
    real = java.resolve()
    parts = (
        real,
        *(real.parent.parent / "lib" / "server").glob("libjvm.*"),
        *map(Path, class_path.split(os.pathsep)),
    )
    digest = hashlib.sha256()
    for part in parts:
        status = part.stat()
        digest.update(f"{part}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return directory / f"zookeeper-{digest.hexdigest()[:16]}.jsa"


def options(directory: Path | None, java: Path, class_path: str) -> tuple[str, ...]:
    """The options with which ZooKeeper's JVM uses the archive; none if there is no archive."""
    if directory is None:
        return ()
    try:
        path = archive_path(directory, java, class_path)
        return ("-Xshare:auto", f"-XX:SharedArchiveFile={path}") if path.is_file() else ()
    except OSError:
        return ()
