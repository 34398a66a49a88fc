"""A streaming read. The driver chooses the end of each micro-batch, and workers read its ranges.

Theory of operation. Spark keeps one `StreamReader` in a Python process of the driver for as long as a query
runs, and pickles others for the workers, so connections are kept elsewhere (`source.connections`). For each
trigger Spark calls `latestOffset` with the end of the last finished micro-batch. This call does three things:
it commits that end to the group of option groupId, asks the cluster for the ends of the logs, and looks for
losses.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from hightide_spark.core.admission import Patience, admit
from hightide_spark.core.data_loss import find_losses, without_lost
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


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. Spark calls its methods, on the driver except for `read`. Offsets are those of
    `core.stream_offsets` as JSON objects. The constructor raises OptionError and UnsupportedSchemaError, the
    methods raise DataLossError and the SDK's errors."""

    def __init__(self, given: Mapping[str, str], schema: "StructType") -> None:
        self._options = stream_options(given)
        read = self._options.read
        self._read = PlannedRead.of(read, schema)
        self._cluster = ClusterQuestions(read.cluster, read.subscription)
        self._patience = Patience(
            self._options.min_offsets_per_trigger or 0, self._options.max_trigger_delay_ms
        )
        group = self._options.group_id
        self._group = GroupProgress(read.cluster, group) if group else None
        # With Trigger.AvailableNow the ends of the logs at its start, else None.
        self._available_ends: StreamOffsets | None = None
        self._latest: StreamOffsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offsets at which a new query starts. Raises UnknownTopicError if the options name a topic that
        does not exist."""
        read = self._options.read
        topics = self._cluster.topics()
        every = [partition for topic in topics.values() for partition in self._cluster.partitions_of(topic)]
        answers = self._cluster.answers(questions(read.start, every))
        starts = resolve(read.start, every, answers, late=read.late)
        report_losses(starts.errors, read.fail_on_data_loss)
        return as_json_object(offsets_by_topic(topics, starts.offsets))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of a micro-batch for Spark, which takes only one: the maximum if there is one, else the
        minimum. `latestOffset` applies the minimum in both cases."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the ends of the logs, up to which a query with Trigger.AvailableNow reads."""
        self._available_ends = self._cluster.ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch, or `start` if it should wait. `start` is the end of the last
        finished one."""
        before = parse(start)
        # With AvailableNow no later micro-batch can commit these positions after a failure.
        self._publish(before, is_last=before == self._available_ends)
        selects = self._options.read.subscription.selects
        if self._available_ends is None:
            now = self._ends(before)
        else:
            now = self._available_ends
            if find_losses(before, now, selects):
                # These ends are before the query's position. A deposed leader gave one of them, or a log grew
                # between them and the ends that initialOffset got.
                now = self._available_ends = self._ends(before)
        self._latest = now
        losses = find_losses(before, now, selects)
        report_losses(losses, self._options.read.fail_on_data_loss)
        left = without_lost(before, now, selects)
        if isinstance(limit, ReadAllAvailable):
            return as_json_object(now)
        now_ms = time.monotonic() * 1000
        waiting = sum(each.size for each in between(left, now))
        if self._available_ends is None and not losses and self._patience.waits(waiting, now_ms):
            return start
        if waiting:
            self._patience = self._patience.after_batch(now_ms)
        return as_json_object(admit(left, now, limit.max_rows if isinstance(limit, ReadMaxRows) else None))

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

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The ends of the logs, for the query's progress. Their difference to its end offsets is the lag."""
        return None if self._latest is None else as_json_object(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the micro-batch from `start` to `end`. Raises TooManyTasksError."""
        read = self._options.read
        pieces = split(between(parse(start), parse(end)), read.min_partitions, read.max_records_per_partition)
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
