"""A Spark session that reads from and writes to both systems, as the parent asks."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import psutil
from hightide_local.processes.spark_java import spark_java_home

from hightide_bench.loads.load_worker import load_main, say_ready
from hightide_bench.measuring.processor_time import process_seconds
from hightide_bench.spark.streaming import batch_ms, catch_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_TUNED: Final[Mapping[str, str]] = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
}
WRITE_TUNED: Final[Mapping[str, str]] = {
    "kafka.linger.ms": "10",
    "kafka.batch.size": "524288",
    "kafka.buffer.memory": str(128 << 20),
}
_ROWS_A_BATCH: Final = 1_000
_BATCHES: Final = 20
_ROWS_A_MILLION: Final = 1_000_000


class SparkLoad:
    """What Spark may be asked for. The query is the same for both systems, but for the source's options."""

    def __init__(self, session: "SparkSession") -> None:
        self._session = session
        self._works: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
            "read": lambda order: self._rates(order, lambda: self._read(order)),
            "write": lambda order: self._rates(order, lambda: self._write(order)),
            "catch-up": lambda order: self._rates(order, lambda: catch_up(self._stream(order))),
            "batches": self._batches,
        }

    def carry_out(self, order: dict[str, Any]) -> dict[str, float]:
        """Do what is asked for, and return its figures."""
        return self._works[order["do"]](order)

    def _rates(self, order: dict[str, Any], work: Callable[[], None]) -> dict[str, float]:
        used_s, brokers_s = _tree_seconds(), sum(map(process_seconds, order["broker_pids"]))
        began_s = time.monotonic()
        work()
        elapsed_s = time.monotonic() - began_s
        used_s = _tree_seconds() - used_s + sum(map(process_seconds, order["broker_pids"])) - brokers_s
        rows = order["rows"]
        return {"rows_per_s": rows / elapsed_s, "cpu_s_per_mrow": used_s / rows * _ROWS_A_MILLION}

    def _read(self, order: dict[str, Any]) -> None:
        reader = self._session.read.format(order["system"]).options(**_source(order))
        reader.load().write.format("noop").mode("overwrite").save()

    def _write(self, order: dict[str, Any]) -> None:
        value = f"CAST(lpad(CAST(id AS STRING), {order['record_bytes']:d}, 'x') AS BINARY) AS value"
        rows = self._session.range(0, order["rows"], 1, 2).selectExpr(value)
        options = {**_address(order), "topic": order["topic"], **(WRITE_TUNED if order["tuned"] else {})}
        rows.write.format(order["system"]).options(**options).mode("append").save()

    def _stream(self, order: dict[str, Any], **options: str) -> "DataFrame":
        reader = self._session.readStream.format(order["system"]).options(**_source(order))
        return reader.options(startingOffsets="earliest", **options).load()

    def _batches(self, order: dict[str, Any]) -> dict[str, float]:
        """Micro-batches of the system, and right after them those of a source that does nothing."""
        rate = self._session.readStream.format("rate-micro-batch").options(
            rowsPerBatch=_ROWS_A_BATCH, numPartitions=order["partitions"]
        )
        theirs_ms = batch_ms(self._stream(order, maxOffsetsPerTrigger=str(_ROWS_A_BATCH)), _BATCHES)
        return {"batch_ms": theirs_ms, "batch_overhead_ms": theirs_ms - batch_ms(rate.load(), _BATCHES)}


def _address(order: dict[str, Any]) -> dict[str, str]:
    prefix = "kafka." if order["system"] == "kafka" else ""
    return {f"{prefix}bootstrap.servers": order["bootstrap"]}


def _source(order: dict[str, Any]) -> dict[str, str]:
    return {**_address(order), "subscribe": order["topic"], **(READ_TUNED if order["tuned"] else {})}


def _tree_seconds() -> float:
    """The processor seconds of this process, Spark's JVM and its workers."""
    seconds = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            seconds += process_seconds(process.pid)
        except psutil.NoSuchProcess:
            continue  # A worker that ended meanwhile.
    return seconds


def run(configuration: dict[str, Any]) -> dict[str, Any]:
    """Carry out orders until the parent ends the input."""
    os.environ["JAVA_HOME"] = str(spark_java_home())
    # Arguments and not settings of the session: its JVM runs before it is asked for those.
    jars = ",".join(configuration["jars"])
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} --driver-memory 2g pyspark-shell"
    from hightide_spark.session import spark_session
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    session = spark_session(
        "hightide bench peers",
        master="local[2]",
        defaults={"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"},
    )
    try:
        load = SparkLoad(session)
        say_ready()
        for line in sys.stdin:
            try:
                answer: dict[str, Any] = load.carry_out(json.loads(line))
            except (PySparkException, Py4JError) as error:
                # The session is as good as before, and the next order may be for the other system.
                answer = {"error": str(error).strip().splitlines()[0]}
            print(json.dumps(answer), flush=True)
    finally:
        session.stop()
    return {}


if __name__ == "__main__":
    load_main(run)
