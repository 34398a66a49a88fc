"""Writes the archives of ZooKeeper's and of Spark's classes (`class_archive`). `make setup` runs it, and
ignores its failure."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hightide_local.errors import ClusterError
from hightide_local.processes.class_archive import SPARK, ZOOKEEPER, archive_directory, archive_path
from hightide_local.processes.embedded_zookeeper import JVM_FLAGS, EmbeddedZooKeeper
from hightide_local.processes.java import find_java, zookeeper_class_path
from hightide_local.processes.spark_java import SHORT_LIVED, spark_class_path, spark_java_home

_CHECK_TIMEOUT_S: Final = 30.0
_SPARK_TIMEOUT_S: Final = 300.0
#: A Spark session that does a little of what pipelines do, so that its JVM loads their classes.
_SPARK_PROGRAM: Final = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

class Reader(DataSourceReader):
    def read(self, partition):
        yield (7,)

class Source(DataSource):
    @classmethod
    def name(cls):
        return "sevens"
    def schema(self):
        return "number int"
    def reader(self, schema):
        return Reader()

def same(batches):
    yield from batches

directory = sys.argv[1]
settings = {
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.local.dir": directory, "spark.sql.warehouse.dir": f"{directory}/warehouse",
}
session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
rows = session.range(0, 100, 1, 2).selectExpr("id", "id % 7 AS key", "CAST(id AS STRING) AS value")
rows.groupBy("key").count().orderBy("key").collect()
rows.mapInArrow(same, "id long, key long, value string").write.json(f"{directory}/json")
session.dataSource.register(Source)
session.read.format("sevens").load().collect()
stream = session.readStream.schema("key long, value string").json(f"{directory}/json")
writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
writer.trigger(availableNow=True).start(f"{directory}/parquet").awaitTermination()
session.read.parquet(f"{directory}/parquet").count()
session.stop()
"""


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
        _put_in_place(new, path, ZOOKEEPER)
    return path


def make_spark_archive(directory: Path, home: Path, class_path: str) -> Path:
    """Like `make_archive`, of Spark's classes on the Java of this home. Raises OSError, and
    subprocess.SubprocessError if the session or the JVM's writing fails."""
    path = archive_path(directory, home / "bin" / "java", class_path, SPARK)
    if path.is_file():
        return path
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix="making-") as scratch:
        new = Path(scratch, "archive.jsa")
        options = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={new}"
        # The JVM writes the file after the session's program has ended; its output ends then, too.
        subprocess.run(
            [sys.executable, "-c", _SPARK_PROGRAM, scratch],
            check=True,
            capture_output=True,
            timeout=_SPARK_TIMEOUT_S,
            env={
                **os.environ,
                "JAVA_HOME": str(home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_SUBMIT_OPTS": options,
            },
        )
        _put_in_place(new, path, SPARK)
    return path


def _put_in_place(new: Path, path: Path, program: str) -> None:
    """Give the new archive its name, in the place of those of other jars and JVMs. Raises OSError."""
    for other in path.parent.glob(f"{program}-*.jsa"):
        with contextlib.suppress(OSError):
            other.unlink()
    new.rename(path)


def main() -> None:
    """Write the archives, or print one line with the reason why one does not exist."""
    directory = archive_directory()
    if directory is None:
        return
    _try("ZooKeeper", lambda: make_archive(directory, find_java(), zookeeper_class_path()))
    _try("Spark", lambda: make_spark_archive(directory, spark_java_home(), spark_class_path()))


def _try(program: str, make: Callable[[], Path]) -> None:
    try:
        make()
    except (OSError, ClusterError, subprocess.SubprocessError) as error:
        print(f"{program} starts without an archive of its classes: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
