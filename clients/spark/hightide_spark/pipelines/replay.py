"""`hightide pipeline replay`: an archived topic back into a topic, once, and per key in its order.

Each archived partition is one task, which reads its files in the order of their offsets and writes them in
that order; records of one key lie in one partition, so they stay in order. Not so where partitions were
added while the topic was in use: older records of a key lie in another one than newer ones, and the tasks
are done side by side. The tasks' numbers are those of the archived partitions, and the writer's identity is
made of the archived topic's id: the same replay again finds in the target what it wrote before, wherever it
was interrupted, and writes the rest; as long as the target's log knows the writer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_spark.pipelines.command import check_topics, cluster_options, print_report, told_in_a_sentence
from hightide_spark.pipelines.run_progress import NO_BARS_OF_SPARK, work_shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_COLUMNS = "key binary, value binary, timestamp timestamp, headers array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What is written: of each partition of one archived topic the files, in order."""

    topic: str
    topic_id: str
    paths: tuple[tuple[Path, ...], ...]
    """By partition; empty where nothing of it is archived."""
    record_count: int


def plan_replay(directory: Path, topic: str | None, topic_id: str | None) -> ReplayPlan:
    """Choose the archived topic; neither needs to be named where the archive holds only one.

    Raises ArchiveChoiceError where there is none such, or more than one; ArchiveFlawError where records are
    missing or there twice.
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
    """Write the records of a plan into a topic, with their timestamps and headers. A repetition with the same
    `run` writes nothing twice; a higher one writes all of it again, and ends those with lower ones. Raises
    UnknownTopicError, and PythonException, of whose text `command.sentence_of` makes a sentence."""
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
@click.option("--to", "target", metavar="TOPIC", required=True, help="Write into this topic.")
@click.option("--from", "topic", metavar="TOPIC", help="The archived topic, where there are several.")
@click.option("--topic-id", metavar="HEX", help="Its id, where it was archived, deleted, and created anew.")
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
    """Write what is archived in DIRECTORY back into a topic, per key in its order.

    The same command again, after a crash or not, writes only what is missing, if it comes within a day and
    no 100,000 other producers wrote to a partition of the topic since; later it writes everything again.

    Keys lose their order where partitions were added to the archived topic while it was in use: what came
    before and after is written at the same time.
    """
    from hightide_spark.session import spark_session

    with told_in_a_sentence(), work_shown("replay") as shown:
        plan = plan_replay(directory, topic, topic_id)
        spark = shown.of(spark_session("hightide replay", master=master, defaults=NO_BARS_OF_SPARK))
        replay(spark, bootstrap, plan, target, run)
    document = {"records": plan.record_count, "from": plan.topic, "topic_id": plan.topic_id, "to": target}
    print_report(output, document, [f"replay: records={plan.record_count} from={plan.topic} to={target}"])


if __name__ == "__main__":
    command()
