"""`bench spark-stream`: compares a micro-batch with one of Spark's rate source, and measures how fast a
stream catches up."""

import threading
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hightide_cli.printing.progress import WorkDone

from hightide_bench.loads.load_worker import LoadFailedError
from hightide_bench.measuring.target import LoadTarget
from hightide_bench.spark.spark_runs import (
    Figures,
    SparkPlan,
    fill,
    medians_by_partitions,
    records_in,
    seconds,
    topics_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_ROWS_A_BATCH = 1_000
#: The first micro-batches are slower: they start workers and compile code.
_WARM_BATCHES = 5
_PARTITIONS = 2
_BATCHES_WITHIN_S = 120.0
_LOOK_S = 0.1


def measure_spark_stream(
    spark: "SparkSession", target: LoadTarget, plan: SparkPlan, done: WorkDone
) -> tuple[Figures, dict[int, Figures]]:
    """Measure both. Return the times of micro-batches, and the rates of catching up by number of
    partitions."""
    with topics_of(target, "spark-stream", plan.partitions) as topics:
        for topic in topics.values():
            fill(target, topic, plan.records, plan.record_bytes)
        records = {number: records_in(target, topic, number) for number, topic in topics.items()}

        def measure(number: int) -> Figures:
            rows = _stream(spark, target, topics[number])
            return {"catch_up_rows_per_s": records[number] / seconds(lambda: catch_up(rows))}

        caught_up = medians_by_partitions(plan, measure, done)
    return _overhead(spark, target, plan, done), caught_up


def _overhead(spark: "SparkSession", target: LoadTarget, plan: SparkPlan, done: WorkDone) -> Figures:
    """Run the same query over the rate source and over a topic in turns, with the same numbers of partitions
    and rows. Return the medians of their times."""
    with topics_of(target, "spark-batches", [_PARTITIONS]) as topics:
        fill(target, topics[_PARTITIONS], _ROWS_A_BATCH * plan.batches, plan.record_bytes)
        rate = spark.readStream.format("rate-micro-batch").options(
            rowsPerBatch=_ROWS_A_BATCH, numPartitions=_PARTITIONS
        )
        ours = _stream(spark, target, topics[_PARTITIONS], maxOffsetsPerTrigger=str(_ROWS_A_BATCH))
        rounds = []
        for _ in range(plan.rounds):
            rounds.append((batch_ms(ours, plan.batches), batch_ms(rate.load(), plan.batches)))
            done.advance(1)
    return {
        "batch_overhead_ms": median(ours_ms - rate_ms for ours_ms, rate_ms in rounds),
        "batch_ms": median(ours_ms for ours_ms, _ in rounds),
        "rate_batch_ms": median(rate_ms for _, rate_ms in rounds),
    }


def _stream(spark: "SparkSession", target: LoadTarget, topic: str, **options: str) -> "DataFrame":
    reader = spark.readStream.format("hightide").option("bootstrap.servers", target.bootstrap)
    return reader.options(subscribe=topic, startingOffsets="earliest", **options).load()


def catch_up(rows: "DataFrame") -> None:
    """Run a stream over what there is until it has ended. `bench peers` calls it, too."""
    with TemporaryDirectory(prefix="hightide-bench-") as checkpoint:
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


def batch_ms(rows: "DataFrame", count: int) -> float:
    """Run a query whose micro-batches follow without a pause. Return the median of their times in
    milliseconds. `bench peers` calls it, too."""
    with TemporaryDirectory(prefix="hightide-bench-") as checkpoint:
        query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            return median(_batch_times_ms(query, count)[_WARM_BATCHES:])
        finally:
            query.stop()


def _batch_times_ms(query: "StreamingQuery", count: int) -> list[float]:
    waited_s, pause = 0.0, threading.Event()
    while waited_s < _BATCHES_WITHIN_S:
        error = query.exception()
        if error is not None:
            raise error
        last = query.lastProgress
        if last is not None and last["batchId"] >= count - 1:
            batches = [each for each in query.recentProgress if each["numInputRows"] > 0]
            return [float(each["durationMs"]["triggerExecution"]) for each in batches[:count]]
        pause.wait(_LOOK_S)
        waited_s += _LOOK_S
    raise LoadFailedError(
        f"a query did not do {count} micro-batches within {_BATCHES_WITHIN_S:.0f} s; "
        f"its last progress: {query.lastProgress}"
    )
