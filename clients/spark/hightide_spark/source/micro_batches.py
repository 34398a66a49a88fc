"""The part of a streaming read that every Spark 4 has: the start of a query, the ends of the logs, the tasks
of a micro-batch.

Theory of operation. Spark keeps one reader in a Python process of the driver for as long as a query runs, and
pickles others for the workers, so connections are kept elsewhere (`source.connections`).
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from hightide_spark.core.data_loss import find_losses
from hightide_spark.core.ranges import between, split
from hightide_spark.core.source_options import stream_options
from hightide_spark.core.start_and_end import questions, resolve
from hightide_spark.core.stream_offsets import StreamOffsets, as_json_object, parse
from hightide_spark.errors import RecordsLostError
from hightide_spark.source.cluster_questions import ClusterQuestions, offsets_by_topic
from hightide_spark.source.group_progress import GroupProgress
from hightide_spark.source.planned_read import PlannedRead, report_losses

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# A deposed leader that does not know it yet may answer with an earlier end. So an end counts as a loss only
# if it is still too early after this time.
_STALE_ENDS_S: Final = 5.0
_STALE_ENDS_PAUSE_S: Final = 0.5


class MicroBatchReader(DataSourceStreamReader):
    """Reads micro-batches, whose ends a subclass chooses. Spark calls its methods, on the driver except for
    `read`. Offsets are those of `core.stream_offsets` as JSON objects. The constructor raises OptionError and
    UnsupportedSchemaError, the methods raise DataLossError and the SDK's errors."""

    def __init__(self, given: Mapping[str, str], schema: "StructType") -> None:
        self._options = stream_options(given)
        read = self._options.read
        self._read = PlannedRead.of(read, schema)
        self._cluster = ClusterQuestions(read.cluster, read.subscription)
        group = self._options.group_id
        self._group = GroupProgress(read.cluster, group) if group else None
        self._start: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offsets at which a new query starts. Spark asks twice: before it asks for the end of the first
        micro-batch, and when it plans its tasks. Both answers are the same, so that the tasks begin where the
        end was chosen from. Raises UnknownTopicError if the options name a topic that does not exist."""
        if self._start is None:
            self._start = self._starting_offsets()
        return self._start

    def _starting_offsets(self) -> dict[str, Any]:
        read = self._options.read
        topics = self._cluster.topics()
        every = [partition for topic in topics.values() for partition in self._cluster.partitions_of(topic)]
        answers = self._cluster.answers(questions(read.start, every))
        starts = resolve(read.start, every, answers, late=read.late)
        report_losses(starts.errors, read.fail_on_data_loss)
        return as_json_object(offsets_by_topic(topics, starts.offsets))

    def _ends(self, before: StreamOffsets) -> StreamOffsets:
        """The present ends of the logs. Ends before the query's position are asked for again for a while."""
        selects = self._options.read.subscription.selects
        give_up_s = time.monotonic() + _STALE_ENDS_S
        while True:
            now = self._cluster.ends()
            losses = find_losses(before, now, selects)
            may_be_stale = any(isinstance(loss, RecordsLostError) for loss in losses)
            if not may_be_stale or time.monotonic() >= give_up_s:
                return now
            time.sleep(_STALE_ENDS_PAUSE_S)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the micro-batch from `start` to `end`. Raises TooManyTasksError."""
        return self._tasks(parse(start), parse(end))

    def _tasks(self, start: StreamOffsets, end: StreamOffsets) -> list[InputPartition]:
        read = self._options.read
        pieces = split(between(start, end), read.min_partitions, read.max_records_per_partition)
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, as Arrow batches. Called in Spark's workers. Raises the errors of
        `PlannedRead.rows`."""
        return self._read.rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Publish that Spark has finished all micro-batches up to `end`."""
        self._publish(parse(end))

    def _publish(self, offsets: StreamOffsets, *, is_last: bool = False) -> None:
        if self._group is not None:
            self._group.publish(offsets, is_last=is_last)

    def stop(self) -> None:
        """Close the connections. Spark calls it when the query has ended."""
        if self._group is not None:
            self._group.close()
