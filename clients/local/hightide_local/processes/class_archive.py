"""ZooKeeper's classes as the JVM has them in memory, in a file of the virtual environment.

A third of the processor time in which a ZooKeeper starts goes into reading and checking the same classes. A
JVM that is given the archive (class data sharing) maps them instead. `make setup` writes it, by
`python -m hightide_local.processes.making_class_archive`. Without one, or with one that the JVM does not
accept, ZooKeeper starts all the same.
"""

import hashlib
import os
import sys
from pathlib import Path


def archive_directory() -> Path | None:
    """Where archives lie: in the virtual environment of this Python.

    None where it runs in none: what belongs to the machine is not ours to write to.
    """
    return None if sys.prefix == sys.base_prefix else Path(sys.prefix, "var", "hightide")


def archive_path(directory: Path, java: Path, class_path: str) -> Path:
    """The archive of these classes for this JVM, whether it is there or not.

    The name changes with each jar and with the JVM: a JVM refuses an archive that is not its own. Raises
    OSError where one of them is not there.
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
    """What a ZooKeeper's JVM is started with so that it uses the archive; nothing where there is none."""
    if directory is None:
        return ()
    try:
        path = archive_path(directory, java, class_path)
        return ("-Xshare:auto", f"-XX:SharedArchiveFile={path}") if path.is_file() else ()
    except OSError:
        return ()
