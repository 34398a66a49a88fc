"""Writes the archive of ZooKeeper's classes (`class_archive`). `make setup` runs it, and ignores its
failure."""

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hightide_local.errors import ClusterError
from hightide_local.jars.zookeeper_jars import zookeeper_class_path
from hightide_local.processes.class_archive import archive_directory, archive_path
from hightide_local.processes.embedded_zookeeper import JVM_FLAGS, EmbeddedZooKeeper
from hightide_local.processes.java import find_java

_CHECK_TIMEOUT_S: Final = 30.0


def make_archive(directory: Path, java: Path, class_path: str) -> Path:
    """Write the archive unless it exists, remove those of other jars and JVMs, and return the path.

    It starts a ZooKeeper, whose JVM writes its loaded classes when it ends. The file gets its name only when
    a JVM has accepted it. Raises OSError, ClusterError if ZooKeeper does not start, and
    subprocess.SubprocessError if the JVM does not accept its own archive.
    """
    path = archive_path(directory, java, class_path)
    if path.is_file():
        return path
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix="making-") as scratch:
        new = Path(scratch, "archive.jsa")
        with EmbeddedZooKeeper(
            Path(scratch, "zookeeper"), class_sharing=(f"-XX:ArchiveClassesAtExit={new}",)
        ):
            pass
        subprocess.run(
            [java, *JVM_FLAGS, "-Xshare:on", f"-XX:SharedArchiveFile={new}", "-cp", class_path, "-version"],
            check=True,
            capture_output=True,
            timeout=_CHECK_TIMEOUT_S,
        )
        for other in directory.glob("zookeeper-*.jsa"):
            with contextlib.suppress(OSError):
                other.unlink()
        new.rename(path)
    return path


def main() -> None:
    """Write the archive, or print one line with the reason why there is none."""
    directory = archive_directory()
    if directory is None:
        return
    try:
        make_archive(directory, find_java(), zookeeper_class_path())
    except (OSError, ClusterError, subprocess.SubprocessError) as error:
        print(f"ZooKeeper starts without an archive of its classes: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
