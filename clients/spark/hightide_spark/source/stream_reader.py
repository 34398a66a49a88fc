"""A stream: what each micro-batch takes, decided on the driver, and what its tasks read.

Theory of operation. Spark keeps one of these in a Python process of the driver for as long as a query runs,
and pickles others for the workers; so connections lie elsewhere (`source.connections`). Per trigger Spark
asks `latestOffset`, from the end of the last finished micro-batch: that is when that end is published to the
group of option groupId, when losses are looked for, and when the cluster is asked once where the logs end.
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
from hightide_spark.source.planned_read import PlannedRead, tell

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# A broker that was deposed and does not know it yet may name an earlier end: it is asked again for so long
# before that is taken for a loss.
_DOUBT_S: Final = 5.0
_DOUBT_PAUSE_S: Final = 0.5


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. Raises OptionError and UnsupportedSchemaError when it is made, DataLossError and
    what the SDK raises later."""

    def __init__(self, given: Mapping[str, str], schema: "StructType") -> None:
        self._options = stream_options(given)
        read = self._options.read
        self._read = PlannedRead.of(read, schema)
        self._cluster = ClusterQuestions(read.bootstrap, read.subscription)
        self._patience = Patience(
            self._options.min_offsets_per_trigger or 0, self._options.max_trigger_delay_ms
        )
        group = self._options.group_id
        self._group = GroupProgress(read.bootstrap, group) if group else None
        self._all_there_was: StreamOffsets | None = None
        self._latest: StreamOffsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins. Raises UnknownTopicError where a topic that is named is not there."""
        read = self._options.read
        topics = self._cluster.topics()
        every = [partition for topic in topics.values() for partition in self._cluster.partitions_of(topic)]
        answers = self._cluster.answers(questions(read.start, every))
        starts = resolve(read.start, every, answers, late=read.late)
        tell(starts.errors, read.fail_on_data_loss)
        return as_json_object(offsets_by_topic(topics, starts.offsets))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark knows one limit at a time; the lower one is known here."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on the logs end where they end now."""
        self._all_there_was = self._cluster.ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` itself where there is nothing to do yet."""
        before = parse(start)
        # With AvailableNow no micro-batch comes behind these that could make up for it.
        self._publish(before, is_last=before == self._all_there_was)
        selects = self._options.read.subscription.selects
        if self._all_there_was is None:
            now = self._ends(before)
        else:
            now = self._all_there_was
            if find_losses(before, now, selects):
                # What was told first is behind where the query stands: a deposed leader's word, or a log that
                # went on before initialOffset asked for its end.
                now = self._all_there_was = self._ends(before)
        self._latest = now
        losses = find_losses(before, now, selects)
        tell(losses, self._options.read.fail_on_data_loss)
        left = without_lost(before, now, selects)
        if isinstance(limit, ReadAllAvailable):
            return as_json_object(now)
        now_ms = time.monotonic() * 1000
        waiting = sum(each.size for each in between(left, now))
        if self._all_there_was is None and not losses and self._patience.waits(waiting, now_ms):
            return start
        if waiting:
            self._patience = self._patience.after_batch(now_ms)
        return as_json_object(admit(left, now, limit.max_rows if isinstance(limit, ReadMaxRows) else None))

    def _ends(self, before: StreamOffsets) -> StreamOffsets:
        selects = self._options.read.subscription.selects
        doubt_until_s = time.monotonic() + _DOUBT_S
        while True:
            now = self._cluster.ends()
            losses = find_losses(before, now, selects)
            is_doubtful = any(isinstance(loss, RecordsLostError) for loss in losses)
            if not is_doubtful or time.monotonic() >= doubt_until_s:
                return now
            time.sleep(_DOUBT_PAUSE_S)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Where the logs end, for the query's progress: the difference to its end offset is the lag."""
        return None if self._latest is None else as_json_object(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        read = self._options.read
        pieces = split(between(parse(start), parse(end)), read.min_partitions, read.max_records_per_partition)
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task; called in Spark's workers."""
        return self._read.rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has finished everything up to here."""
        self._publish(parse(end))

    def _publish(self, offsets: StreamOffsets, *, is_last: bool = False) -> None:
        if self._group is not None:
            self._group.publish(offsets, is_last=is_last)

    def stop(self) -> None:
        """The query has ended."""
        if self._group is not None:
            self._group.close()
