"""A program for any Spark 4. It writes, reads and streams as docs/spark.md promises, and prints what it found
as JSON."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from hightide_spark.session import spark_session
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 2_000


def refusal(work: Any) -> str:
    """The sentence of the error that this raises; nothing if it raises none."""
    try:
        work()
    except PySparkException as error:
        lines = [line for line in str(error).splitlines() if "NewerSparkNeededError: " in line]
        return lines[-1].partition("NewerSparkNeededError: ")[2] if lines else str(error)
    return ""


class Program:
    """What is tried, over two topics of two partitions."""

    def __init__(self, spark: "SparkSession", arguments: argparse.Namespace) -> None:
        self._spark = spark
        self._cluster = {"bootstrap.servers": arguments.bootstrap}
        self._first, self._second = arguments.first, arguments.second
        self._scratch: Path = arguments.scratch

    def write(self, start: int, end: int, **options: str) -> None:
        """Rows whose value is their number, without a mode."""
        rows = self._spark.range(start, end, 1, 2).selectExpr(
            "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value", "TIMESTAMP_SECONDS(id) AS timestamp"
        )
        writer = rows.write.format("hightide").options(**self._cluster, **options, topic=self._first)
        writer.option("kafka.linger.ms", "10").save()

    def read(self, topic: str, schema: str = "value binary, timestamp timestamp", **options: str) -> Any:
        reader = self._spark.read.format("hightide").schema(schema).options(**self._cluster, **options)
        return reader.option("subscribe", topic).load()

    def copy(self, **options: str) -> list[int]:
        """Stream the first topic into the second one, to the present end; the rows of each micro-batch."""
        stream = self._spark.readStream.format("hightide").options(
            **self._cluster, subscribe=self._first, startingOffsets="earliest", groupId="copier", **options
        )
        stream = stream.option("kafka.max.poll.records", "500")
        sink = stream.load().select("key", "value", "timestamp").writeStream.format("hightide")
        sink = sink.options(**self._cluster, topic=self._second)
        query = sink.option("checkpointLocation", str(self._scratch / "checkpoint"))
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        return [each["numInputRows"] for each in running.recentProgress if each["numInputRows"]]

    def rows_of(self, topic: str) -> dict[str, int]:
        """How many rows there are, how many different ones, and in how many the time is that of the value."""
        counts = "count(*) AS rows", "count(DISTINCT value) AS values"
        timely = "count_if(unix_seconds(timestamp) = CAST(CAST(value AS STRING) AS BIGINT)) AS timely"
        found = self.read(topic).selectExpr(*counts, timely).first()
        return {name: int(count) for name, count in found.asDict().items()}

    def pushed_down(self) -> int:
        """How many of the first topic's rows a read with pushdown takes from offset 5 on, in partition 0."""
        found = self.read(self._first, "partition int, offset bigint", pushdown="true")
        first: int = found.where("partition = 0 AND offset >= 5").selectExpr("min(offset) AS m").first().m
        return first

    def limited(self) -> None:
        """A stream with a limit of its micro-batches."""
        stream = self._spark.readStream.format("hightide").options(
            **self._cluster, subscribe=self._first, startingOffsets="earliest", maxOffsetsPerTrigger="700"
        )
        folder = self._scratch / "limited"
        query = stream.load().writeStream.format("parquet").option("path", str(folder / "rows"))
        query = query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()

    def run(self) -> dict[str, Any]:
        """Try all of it."""
        for _ in range(2):
            self.write(0, ROWS, txnAppId="versions", txnVersion="1")
        batches = [self.copy()]
        self.write(ROWS, 2 * ROWS)
        batches.append(self.copy())
        return {
            "spark": pyspark.__version__,
            "first": self.rows_of(self._first),
            "second": self.rows_of(self._second),
            "batches": batches,
            "limit_refused": refusal(self.limited),
            "pushdown_refused": refusal(self.pushed_down),
        }


def main() -> None:
    """Run it by the arguments of the command line."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "first", "second"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    arguments = parser.parse_args()
    spark = spark_session(
        "versions",
        master="local[2]",
        defaults={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.python.filterPushdown.enabled": "true",
            "spark.log.level": "ERROR",
        },
    )
    print(json.dumps(Program(spark, arguments).run()))
    spark.stop()


if __name__ == "__main__":
    main()
