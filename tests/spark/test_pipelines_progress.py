"""What the bar of a pipeline shows is what Spark does at that moment."""

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from flight_topics import flights, write_rows
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_spark.pipelines.command import stream_of
from hightide_spark.pipelines.run_progress import Shown, StreamCourse, look

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def test_tasks_are_counted_while_they_run(spark: "SparkSession", tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"

    # Not a function of this module, which the workers cannot import.
    def hold_the_last(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        pause = threading.Event()
        for batch in batches:
            deadline_s = time.monotonic() + 240
            while (
                2 in batch.column("id").to_pylist() and not go_on.exists() and time.monotonic() < deadline_s
            ):
                pause.wait(0.05)
            yield batch

    rows = spark.range(0, 3, 1, 3).mapInArrow(hold_the_last, "id long")
    working = threading.Thread(target=rows.collect)
    working.start()
    try:
        wait_until("two tasks", lambda: look(spark, StreamCourse()).text == "2 of 3 tasks", timeout_s=120)
    finally:
        go_on.touch()
        working.join(120)
    # Spark's account of the stages is a moment behind the result.
    nothing = Shown(None, "")
    wait_until("nothing is shown", lambda: look(spark, StreamCourse()) == nothing, timeout_s=30)


def test_a_stream_is_counted_in_records_from_its_first_micro_batch_on(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    write_rows(cluster.bootstrap, topic, flights()[:100])
    course = StreamCourse()
    seen: list[str] = []

    def see(rows: "DataFrame", batch_id: int) -> None:
        rows.count()
        seen.append(look(spark, course).text)

    stream = stream_of(spark, cluster.bootstrap, {"subscribe": topic, "maxOffsetsPerTrigger": "40"})
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(see)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert seen[1:] == ["40 of 100 records", "80 of 100 records"]
