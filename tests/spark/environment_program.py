"""A program for a Spark that is elsewhere: writes a topic, copies it by a stream, reads the copy, counts.

A read with a gate holds each of its tasks between its first rows and the others until the file `go` is there.
"""

import argparse
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from hightide_spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 20_000
HELD_S = 300.0
COLUMNS = "key binary, partition int, offset bigint"


def held_at(gate: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with its rows: it says that it has some, and waits."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 0:
                (gate / f"holding-{uuid.uuid4().hex}").touch()
                give_up_s = time.monotonic() + HELD_S
                while not (gate / "go").exists():
                    if time.monotonic() > give_up_s:
                        raise TimeoutError(f"nobody opened {gate}")
                    threading.Event().wait(0.05)
            yield batch

    return hold


def run(arguments: argparse.Namespace) -> dict[str, int]:
    cluster = {"bootstrap.servers": arguments.bootstrap}
    spark = spark_session(
        "environment",
        master=arguments.master,
        remote=arguments.remote,
        defaults={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        },
    )
    rows = spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.write.format("hightide").options(**cluster, topic=arguments.first).mode("append").save()

    read = {**cluster, "subscribe": arguments.first, "startingOffsets": "earliest"}
    stream = spark.readStream.format("hightide").options(**read).load().select("key", "value")
    copied = stream.writeStream.format("hightide").options(**cluster, topic=arguments.second)
    query = copied.option("checkpointLocation", arguments.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()

    copy = spark.read.format("hightide").options(**cluster, subscribe=arguments.second)
    found: DataFrame = copy.schema(COLUMNS).load()
    if arguments.gate is not None:
        found = found.mapInArrow(held_at(arguments.gate), COLUMNS)
    summary = found.selectExpr(
        "count(*) AS rows",
        "count(DISTINCT key) AS keys",
        "count(DISTINCT partition, offset) AS places",
    ).first()
    assert summary is not None
    result = summary.asDict()
    spark.stop()
    return {name: int(value) for name, value in result.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("master", "remote"):
        parser.add_argument(f"--{name}")
    for name in ("bootstrap", "first", "second", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--gate", type=Path)
    print(json.dumps(run(parser.parse_args())))
