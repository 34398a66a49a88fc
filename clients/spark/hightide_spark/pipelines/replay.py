"""`hightide pipeline replay`: writes an archived topic back into a topic, each record once, in order by key.

Each archived partition is one task, which reads its files in the order of their offsets and writes the
records in that order. Records of a key are in one partition, so they keep their order. They do not if
partitions were added while the topic was in use: then older records of a key are in another partition than
newer ones, and the tasks run at the same time.

A task has the number of its archived partition, and the producer's identity comes from the archived topic's
id. So a repeated replay finds its records in the target, wherever it was interrupted, and writes only the
rest, as long as the target's logs remember the producer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_spark.pipelines.command import (
    check_topics,
    cluster_options,
    failures_as_sentences,
    print_report,
)
from hightide_spark.pipelines.run_progress import NO_BARS_OF_SPARK, work_shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_COLUMNS = "key binary, value binary, timestamp timestamp, headers array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The files of one archived topic that a replay writes, by partition and in the order of offsets."""

    topic: str
    topic_id: str
    paths: tuple[tuple[Path, ...], ...]
    """One entry for each partition; empty if no record of it is archived."""
    record_count: int


def plan_replay(directory: Path, topic: str | None, topic_id: str | None) -> ReplayPlan:
    """Plan the replay of the archived topic with this name and id. Either is optional if the rest leaves only
    one topic.

    Raises ArchiveChoiceError if no topic matches, or more than one; ArchiveFlawError if its records are not
    complete or not unique.
    """
    from hightide_spark.pipelines.archive_files import scan
    from hightide_spark.pipelines.errors import ArchiveChoiceError, ArchiveFlawError

    logs = [
        each
        for each in scan(directory).logs
        if topic in (None, each.log.topic) and topic_id in (None, each.log.topic_id)
    ]
    found = sorted({(each.log.topic, each.log.topic_id) for each in logs})
    if len(found) != 1:
        there = ", ".join(f"{name} (topic id {its_id})" for name, its_id in found) or "no such topic"
        raise ArchiveChoiceError(
            f"{directory} holds {there}; name one topic that is there with --from, and --topic-id where it "
            "was created anew"
        )
    flawed = next((each for each in logs if each.tiling.gaps or each.tiling.overlaps), None)
    if flawed is not None:
        raise ArchiveFlawError(
            f"{flawed.log}: records are missing or there twice; see `hightide pipeline archive {directory}`"
        )
    by_partition = {each.log.partition: tuple(each.paths()) for each in logs}
    ((name, its_id),) = found
    return ReplayPlan(
        name,
        its_id,
        tuple(by_partition.get(number, ()) for number in range(max(by_partition) + 1)),
        sum(each.tiling.record_count for each in logs),
    )


def replay(spark: "SparkSession", bootstrap: str, plan: ReplayPlan, target: str, run: int = 0) -> None:
    """Write the records of a plan into the topic `target`, with their timestamps and headers. A repetition
    with the same `run` writes only missing records. A higher `run` writes all of them again, and fences off
    replays with a lower one. Raises UnknownTopicError, and PythonException, from whose text
    `command.sentence_of` makes a sentence."""
    check_topics(bootstrap, [target])
    read = partial(_read_in_task, paths=tuple(tuple(map(str, each)) for each in plan.paths))
    rows = spark.range(0, len(plan.paths), 1, len(plan.paths)).mapInArrow(read, _COLUMNS)
    options = {
        "bootstrap.servers": bootstrap,
        "topic": target,
        "txnAppId": f"replay/{plan.topic_id}",
        "txnVersion": str(run),
    }
    rows.write.format("hightide").options(**options).mode("append").save()


def _read_in_task(
    tasks: "Iterable[pa.RecordBatch]", *, paths: tuple[tuple[str, ...], ...]
) -> "Iterator[pa.RecordBatch]":
    from hightide_spark.pipelines.archive_files import read_files

    for batch in tasks:
        for number in batch.column("id").to_pylist():
            for rows in read_files(Path(each) for each in paths[number]):
                yield rows.select(["key", "value", "timestamp", "headers"])


@cluster_options
@click.command("replay")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--to", "target", metavar="TOPIC", required=True, help="The topic to write to.")
@click.option(
    "--from", "topic", metavar="TOPIC", help="The archived topic to write back, if there are several."
)
@click.option(
    "--topic-id",
    metavar="HEX",
    help="The id of the archived topic, if several topics with its name were archived.",
)
@click.option(
    "--run",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="The number of this replay; a higher one writes everything once more.",
)
def command(
    directory: Path,
    target: str,
    topic: str | None,
    topic_id: str | None,
    run: int,
    bootstrap: str,
    master: str | None,
    output: str,
) -> None:
    """Write the records archived in DIRECTORY back into a topic, in order by key.

    The same command again, after a crash or not, writes only missing records, if it comes within a day and
    no 100,000 other producers wrote to a partition of the topic since; later it writes everything again.

    Keys lose their order if partitions were added to the archived topic while it was in use: records from
    before and after that are written at the same time.
    """
    from hightide_spark.session import spark_session

    with failures_as_sentences(), work_shown("replay") as shown:
        plan = plan_replay(directory, topic, topic_id)
        spark = shown.of(spark_session("hightide replay", master=master, defaults=NO_BARS_OF_SPARK))
        replay(spark, bootstrap, plan, target, run)
    document = {"records": plan.record_count, "from": plan.topic, "topic_id": plan.topic_id, "to": target}
    print_report(output, document, [f"replay: records={plan.record_count} from={plan.topic} to={target}"])


if __name__ == "__main__":
    command()
