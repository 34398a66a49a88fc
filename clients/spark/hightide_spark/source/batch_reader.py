"""A batch read. The driver chooses its ranges of offsets once."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hightide.records import TopicDescription, TopicPartition
from pyspark.sql.datasource import DataSourceReader, InputPartition

from hightide_spark.core.filters import Narrowing
from hightide_spark.core.ranges import LogRange, split
from hightide_spark.core.source_options import PUSHDOWN, BatchOptions, batch_options
from hightide_spark.core.start_and_end import questions, resolve
from hightide_spark.source.cluster_questions import ClusterQuestions
from hightide_spark.source.planned_read import PlannedRead, report_losses
from hightide_spark.spark_versions import need_filter_pushdown

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def batch_reader(given: Mapping[str, str], schema: "StructType") -> "BatchReader":
    """Make the reader for these options, with or without pushdown. `HightideDataSource.reader` calls it on
    the driver. Raises OptionError and UnsupportedSchemaError."""
    options = batch_options(given)
    if not options.pushdown:
        return BatchReader(options, schema)
    need_filter_pushdown(PUSHDOWN.name)
    from hightide_spark.source.pushdown import PushdownBatchReader

    return PushdownBatchReader(options, schema)


class BatchReader(DataSourceReader):
    """Reads each subscribed partition from the start to the end that the options give. Spark makes the tasks
    with `partitions` on the driver, and calls `read` in its workers."""

    def __init__(self, options: BatchOptions, schema: "StructType") -> None:
        self._options = options
        self._read = PlannedRead.of(options.read, schema)
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """The tasks: ranges of offsets, each within one partition. Raises DataLossError, OptionError and the
        SDK's errors."""
        read = self._options.read
        cluster = ClusterQuestions(read.cluster, read.subscription)
        topics = cluster.topics()
        every = [partition for topic in topics.values() for partition in cluster.partitions_of(topic)]
        asked = [*questions(read.start, every), *questions(self._options.end, every)]
        from_us = self._narrowing.from_us
        if from_us is not None:
            asked += [(partition, from_us) for partition in every]
        answers = cluster.answers(asked)
        starts = resolve(read.start, every, answers, late=read.late)
        ends = resolve(self._options.end, every, answers, late="latest")
        report_losses([*starts.errors, *ends.errors], read.fail_on_data_loss)
        ranges = []
        for partition in every:
            start, end = self._narrowing.narrowed(starts.offsets[partition], ends.offsets[partition])
            if from_us is not None:
                late_enough = answers[partition, from_us]
                start = end if late_enough is None else max(start, late_enough)
            if self._narrowing.partitions is None or partition.partition in self._narrowing.partitions:
                ranges.append(_range(topics[partition.topic], partition, start, end))
        pieces = split(ranges, read.min_partitions, read.max_records_per_partition)
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, as Arrow batches. Raises the errors of `PlannedRead.rows`."""
        return self._read.rows(partition)


def _range(topic: TopicDescription, partition: TopicPartition, start: int, end: int) -> LogRange:
    return LogRange(topic.name, topic.topic_id.hex(), partition.partition, start, end)
