"""`hightide pipeline archive`: writes topics to Parquet, each record once, merges small files, and checks
all.

The driver and all workers must see the archive's directory under the same path. It contains the query's
checkpoint in `_checkpoint`, so that a later run goes on where the last one ended.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hightide_spark.pipelines.command import (
    EVERY,
    SOURCE_OPTIONS,
    await_end,
    check_topics,
    cluster_options,
    failures_as_sentences,
    print_report,
    settings,
    stream_of,
    trigger_of,
)
from hightide_spark.pipelines.run_progress import NO_BARS_OF_SPARK, work_shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hightide_spark.pipelines.archive_layout import ArchivedLog, FileRange

CHECKPOINT = "_checkpoint"
# For each row of a batch that goes to Python, Spark counts all elements of a list column (the headers) again.
# So the time of a batch grows with the square of its rows.
_SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The content of an archive: the records and files of each log, and all problems."""

    records: Mapping[str, int]
    """By topic."""
    files: int
    flaws: tuple[str, ...]

    @property
    def record_count(self) -> int:
        """The records of all topics."""
        return sum(self.records.values())


def archive(
    spark: "SparkSession",
    bootstrap: str,
    directory: Path,
    source_options: Mapping[str, str],
    every_s: float | None = None,
) -> None:
    """Bring an archive up to the present end of the topics, or follow them if `every_s` is given.

    `source_options` are those of the source, with subscribe, subscribePattern or assign. A directory takes
    one run at a time. Wherever a run is interrupted, the next one goes on. Raises UnknownTopicError,
    ArchiveBusyError, and StreamingQueryException, from whose text `command.sentence_of` makes a sentence.
    """
    from hightide_spark.pipelines.archive_files import sweep
    from hightide_spark.pipelines.archive_lock import locked

    if "subscribe" in source_options:
        check_topics(bootstrap, [name.strip() for name in source_options["subscribe"].split(",")])
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        sweep(directory)
        checkpoint = directory / CHECKPOINT
        rows = stream_of(spark, bootstrap, {"includeHeaders": "true", **source_options})
        writer = rows.writeStream.queryName(f"archive {directory.name}").option(
            "checkpointLocation", str(checkpoint)
        )
        writer = writer.foreachBatch(partial(_archive_batch, directory=directory))
        with settings(spark, _SETTINGS):
            query = writer.trigger(**trigger_of(every_s)).start()
        await_end(query, every_s)


def _archive_batch(rows: "DataFrame", batch_id: int, *, directory: Path) -> None:
    from hightide_spark.pipelines.archive_checkpoint import topic_ids
    from hightide_spark.pipelines.archive_files import WRITTEN_COLUMNS, publish, write_ranges

    ids = topic_ids(directory / CHECKPOINT, batch_id)
    write = partial(write_ranges, directory=str(directory.absolute()), topic_ids=ids)
    publish(directory, rows.mapInArrow(write, WRITTEN_COLUMNS).collect())


def compact(spark: "SparkSession", directory: Path, target_bytes: int) -> int:
    """Merge adjacent small files into files of up to `target_bytes`. Return the number of files that were
    merged. Meanwhile readers may see records twice.

    Raises ArchiveBusyError while another run works on the directory. Raises ArchiveUnfinishedError if the
    last run was interrupted: the next one may cut the files of its last micro-batch in another way, and could
    not replace a file that is merged with others.
    """
    from hightide_spark.pipelines.archive_checkpoint import unfinished_batch
    from hightide_spark.pipelines.archive_files import scan, sweep
    from hightide_spark.pipelines.archive_layout import plan_merges
    from hightide_spark.pipelines.archive_lock import locked
    from hightide_spark.pipelines.errors import ArchiveUnfinishedError

    with locked(directory):
        unfinished = unfinished_batch(directory / CHECKPOINT)
        if unfinished is not None:
            raise ArchiveUnfinishedError(
                f"{directory}: the last run was interrupted in its micro-batch {unfinished}; archive the "
                "same topics once more, without --every, and compact then"
            )
        sweep(directory)
        merges = []
        for files in scan(directory).logs:
            sizes = {each: (files.folder / each.file_name).stat().st_size for each in files.tiling.counting}
            merges += [(files.log, parts) for parts in plan_merges(sizes, target_bytes)]
        if merges:
            tasks = spark.range(0, len(merges), 1, len(merges))
            merge_them = partial(_merge_in_task, directory=directory.absolute(), merges=merges)
            tasks.mapInArrow(merge_them, "id long").collect()
    return sum(len(parts) for _, parts in merges)


def _merge_in_task(
    tasks: "Iterable[pa.RecordBatch]",
    *,
    directory: Path,
    merges: "list[tuple[ArchivedLog, tuple[FileRange, ...]]]",
) -> "Iterator[pa.RecordBatch]":
    from hightide_spark.pipelines.archive_files import merge

    for batch in tasks:
        for number in batch.column("id").to_pylist():
            merge(directory, *merges[number])
        yield batch


def check(directory: Path) -> ArchiveReport:
    """Check by the names and footers of all files that each log's files hold each of its records once."""
    from hightide_spark.pipelines.archive_files import miscounted, scan

    found = scan(directory)
    flaws = [f"{name} is no file of an archive" for name in found.strays]
    records: dict[str, int] = {}
    for files in found.logs:
        tiling = files.tiling
        records[files.log.topic] = records.get(files.log.topic, 0) + tiling.record_count
        flaws += [f"{files.log}: {name} is no file of an archive" for name in files.strays]
        flaws += [f"{files.log}: the records {each} are missing" for each in tiling.gaps]
        flaws += [f"{files.log}: the records {each} are there twice" for each in tiling.overlaps]
        flaws += [
            f"{files.log}: the file {each} is part of a merged one; run compact again"
            for each in tiling.covered
        ]
        flaws += [
            f"{files.log}: the file {each} holds {count} records, not {each.record_count}"
            for each, count in miscounted(files)
        ]
    return ArchiveReport(records, sum(len(each.tiling.counting) for each in found.logs), tuple(flaws))


@cluster_options
@click.command("archive")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--subscribe", metavar="TOPIC[,…]", help="Archive these topics.")
@click.option(
    "--subscribe-pattern", metavar="REGEX", help="Archive the topics whose whole name matches REGEX."
)
@click.option(
    "--compact", "compacts", is_flag=True, help="Merge small files after the run; not together with --every."
)
@click.option(
    "--file-mb",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=128,
    show_default=True,
    help="The size up to which --compact merges files, in megabytes.",
)
@EVERY
@SOURCE_OPTIONS
def command(
    directory: Path,
    subscribe: str | None,
    subscribe_pattern: str | None,
    compacts: bool,
    file_mb: int,
    every_s: float | None,
    source_options: Mapping[str, str],
    bootstrap: str,
    master: str | None,
    output: str,
) -> None:
    """Archive topics as Parquet below DIRECTORY, each record once; go on where the last run ended.

    Without --subscribe or --subscribe-pattern nothing is read. After an interrupted run, --compact needs
    a complete one first. At the end all files are checked: the exit code is 1 if records are missing or
    duplicate. `spark.read.parquet(DIRECTORY)` reads the archive.
    """
    from hightide_spark.session import spark_session

    chosen = {"subscribe": subscribe, "subscribePattern": subscribe_pattern}
    topics = {name: value for name, value in chosen.items() if value is not None}
    if compacts and every_s is not None:
        raise click.UsageError(
            "--compact merges when all is archived, and --every never ends; run it afterwards"
        )
    with failures_as_sentences(), work_shown("archive") as shown:
        merged = 0
        if topics or compacts:
            spark = shown.of(spark_session("hightide archive", master=master, defaults=NO_BARS_OF_SPARK))
            if topics:
                archive(spark, bootstrap, directory, {**source_options, **topics}, every_s)
            if compacts:
                merged = compact(spark, directory, file_mb * _MB)
        report = check(directory)
    _print(report, merged, output)
    if report.flaws:
        raise click.exceptions.Exit(1)


def _print(report: ArchiveReport, merged: int, output: str) -> None:
    document: dict[str, Any] = {
        "records": report.record_count,
        "topics": dict(report.records),
        "files": report.files,
        "merged": merged,
        "flaws": list(report.flaws),
    }
    by_topic = [f"{topic}: {count:,} records" for topic, count in report.records.items()]
    counts = f"records={report.record_count} files={report.files} merged={merged} flaws={len(report.flaws)}"
    print_report(output, document, [*report.flaws, *by_topic, f"archive: {counts}"])


if __name__ == "__main__":
    command()
