"""`hightide pipeline audit`: proves that the replicas of topics are identical, byte for byte.

Spark's tasks read the same offsets from every replica of a partition, below the leader's high watermark, and
hash the batches. A replica that lags is read up to its own high watermark, and is reported. All replicas must
agree on the offset, the number of records, the leader epoch, the CRC in the header (which is checked against
the bytes) and the hash of the records of each batch. A broker serves the newest records from memory, so the
audit compares the records that readers would get.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from hightide_spark.pipelines.command import cluster_options, failures_as_sentences, print_report
from hightide_spark.pipelines.run_progress import NO_BARS_OF_SPARK, work_shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hightide_spark.pipelines.replica_comparison import AuditPlan, Divergence, ReplicaRead, Unread

_COLUMNS = (
    "topic string, partition int, slice long, replicas int, broker int, offset long, record_count int, "
    "leader_epoch int, crc long, content binary, failure string"
)
#: The records were committed when the plan was made, so a replica that cannot serve them soon has failed.
_UNAVAILABLE_MS = 15_000
_TASKS_MAX = 1_000
_DIVERGENCES_MAX = 1_000
_HASH_BYTES = 16
_ROWS_PER_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The numbers of compared records, and the findings."""

    partitions: int
    records: int
    """Different records; each was read from all replicas that hold it."""
    batches: int
    """Batches that were read from all replicas together."""
    divergences: "Sequence[Divergence]"
    """At most the first _DIVERGENCES_MAX."""
    unread: "Sequence[Unread]"

    @property
    def is_clean(self) -> bool:
        """Whether all replicas were read and are identical. The exit code says the same."""
        return not self.divergences and not self.unread


def audit(spark: "SparkSession", bootstrap: str, topics: Sequence[str] | None) -> AuditReport:
    """Compare all replicas of these topics, or of all topics if None. Raises HightideError if the cluster
    cannot be asked. A replica that cannot be read is in the report."""
    from hightide import Admin

    from hightide_spark.pipelines.replica_comparison import plan_audit

    with Admin(bootstrap, client_id="spark-audit") as admin:
        described = admin.describe_topics(topics)
        listing = admin.describe_replicas([each.name for each in described])
    plan = plan_audit(described, listing.replicas, listing.silent_brokers)
    if not plan.reads:
        return AuditReport(plan.partitions, 0, 0, (), plan.unread)
    read = partial(_read_in_task, bootstrap=bootstrap, reads=plan.reads)
    tasks = spark.range(0, len(plan.reads), 1, min(len(plan.reads), _TASKS_MAX))
    found = tasks.mapInArrow(read, _COLUMNS).persist()
    try:
        return _report(found, plan)
    finally:
        found.unpersist()


def _read_in_task(
    tasks: "Iterable[pa.RecordBatch]", *, bootstrap: str, reads: "Sequence[ReplicaRead]"
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa
    from hightide.range_reader import RangeReader

    schema = pa.schema(
        [
            ("topic", pa.string()), ("partition", pa.int32()), ("slice", pa.int64()),
            ("replicas", pa.int32()), ("broker", pa.int32()),
            ("offset", pa.int64()), ("record_count", pa.int32()),
            ("leader_epoch", pa.int32()), ("crc", pa.int64()), ("content", pa.binary()),
            ("failure", pa.string()),
        ]
    )  # fmt: skip
    with RangeReader(bootstrap, client_id="spark-audit", unavailable_timeout_ms=_UNAVAILABLE_MS) as reader:
        for batch in tasks:
            for number in batch.column("id").to_pylist():
                rows: list[dict[str, Any]] = []
                for row in _fingerprints(reader, reads[number]):
                    rows.append(row)
                    if len(rows) == _ROWS_PER_BATCH:
                        yield pa.RecordBatch.from_pylist(rows, schema=schema)
                        rows = []
                yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _fingerprints(reader: Any, read: "ReplicaRead") -> Iterator[dict[str, Any]]:
    """A row of _COLUMNS for each batch of a replica, and one for the error if the reading failed."""
    from hashlib import blake2b

    from hightide import HightideError

    where = {
        "topic": read.topic,
        "partition": read.partition,
        "slice": read.start,
        "replicas": read.replicas,
        "broker": read.broker_id,
    }
    offset = read.start
    try:
        for each in reader.read(
            read.topic, read.topic_id, read.partition, read.start, read.end, replica=read.broker_id
        ):
            yield {
                **where,
                "offset": each.base_offset,
                "record_count": each.rows.num_rows,
                "leader_epoch": each.header.leader_epoch,
                "crc": each.header.crc,
                "content": blake2b(each.rows.serialize(), digest_size=_HASH_BYTES).digest(),
            }
            offset = each.base_offset + each.rows.num_rows
    except HightideError as error:
        yield {**where, "offset": offset, "failure": str(error)}


def _report(found: "DataFrame", plan: "AuditPlan") -> AuditReport:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from hightide_spark.pipelines.replica_comparison import Unread

    failures = [row.asDict() for row in found.where("failure IS NOT NULL").collect()]
    read = found.where("failure IS NULL")
    batches = read.count()
    kept = F.struct("record_count", "leader_epoch", "crc", "content")
    by_offset = read.groupBy("topic", "partition", "slice", "offset", "replicas").agg(
        F.count(F.lit(1)).alias("copies"),
        F.collect_set(kept).alias("kinds"),
        F.collect_list(F.struct("broker", kept.alias("kept"))).alias("seen"),
    )
    suspects = by_offset.where("size(kinds) > 1 OR copies < replicas").orderBy("topic", "partition", "offset")
    brokers: dict[tuple[str, int, int], list[int]] = {}
    for each in plan.reads:
        brokers.setdefault((each.topic, each.partition, each.start), []).append(each.broker_id)
    failed_at = {
        (each["topic"], each["partition"], each["slice"], each["broker"]): each["offset"] for each in failures
    }
    rows = (row.asDict(recursive=True) for row in suspects.toLocalIterator())
    judged = (_judge_row(row, brokers, failed_at) for row in rows)
    divergences = tuple(islice((each for each in judged if each is not None), _DIVERGENCES_MAX))
    unread = [
        Unread(each["topic"], each["partition"], each["broker"], each["offset"], each["failure"])
        for each in failures
    ]
    return AuditReport(
        plan.partitions, plan.record_count, batches, divergences, sorted([*plan.unread, *unread])
    )


def _judge_row(
    row: Mapping[str, Any],
    brokers: Mapping[tuple[str, int, int], Sequence[int]],
    failed_at: Mapping[tuple[str, int, int, int], int],
) -> "Divergence | None":
    """Compare the batches at one offset. A replica whose reading failed before is not expected to have
    one."""
    from hightide_spark.pipelines.replica_comparison import Fingerprint, judge

    topic, partition, offset, slice_start = (row[name] for name in ("topic", "partition", "offset", "slice"))
    seen = {
        each["broker"]: Fingerprint(**{**each["kept"], "content": bytes(each["kept"]["content"])})
        for each in row["seen"]
    }
    expected = [
        broker_id
        for broker_id in brokers[topic, partition, slice_start]
        if failed_at.get((topic, partition, slice_start, broker_id), offset + 1) > offset
    ]
    return judge(topic, partition, offset, seen, expected)


@cluster_options
@click.command("audit")
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Only this topic; repeatable.")
def command(topics: tuple[str, ...], bootstrap: str, master: str | None, output: str) -> None:
    """Prove that the replicas of topics are identical, as far as their records are committed.

    The exit code is 1 if some differ, lag behind, or cannot be read. The report names offsets and brokers.
    """
    from hightide_spark.session import spark_session

    with failures_as_sentences(), work_shown("audit") as shown:
        spark = shown.of(spark_session("hightide audit", master=master, defaults=NO_BARS_OF_SPARK))
        report = audit(spark, bootstrap, topics or None)
    document = {
        "partitions": report.partitions,
        "records": report.records,
        "batches": report.batches,
        "divergences": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "differing": list(each.differing),
                "brokers": sorted(each.seen),
                "lacking": list(each.lacking),
                "told": each.sentence(),
            }
            for each in report.divergences
        ],
        "unread": [each.sentence() for each in report.unread],
    }
    counts = f"partitions={report.partitions} records={report.records} batches={report.batches}"
    found = f"divergences={len(report.divergences)} unread={len(report.unread)}"
    told = [each.sentence() for each in report.divergences] + [each.sentence() for each in report.unread]
    print_report(output, document, [*told, f"audit: {counts} {found}"])
    if not report.is_clean:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    command()
