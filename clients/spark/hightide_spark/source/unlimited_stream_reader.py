"""A streaming read in Spark 4.0 and 4.1, which give a source neither the start nor a limit of a micro-batch.

So each micro-batch takes all records that are there, and losses are found when its tasks are made. Spark asks
for the end of the next micro-batch when the last one is finished: its end is then committed to the group of
option groupId. With Trigger.AvailableNow Spark asks once, so that the next run commits the end of this one.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from hightide_spark.core.data_loss import find_losses, without_lost
from hightide_spark.core.stream_offsets import StreamOffsets, as_json_object, parse
from hightide_spark.source.micro_batches import MicroBatchReader
from hightide_spark.source.planned_read import report_losses
from hightide_spark.spark_versions import need_admission_control

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class UnlimitedStreamReader(MicroBatchReader):
    """Reads micro-batches that are as large as what is there. The constructor also raises
    NewerSparkNeededError for options that limit them."""

    def __init__(self, given: Mapping[str, str], schema: "StructType") -> None:
        super().__init__(given, schema)
        need_admission_control(self._options.limits)
        # Where this process last let a micro-batch end; after a restart it is not known at first.
        self._before: StreamOffsets = {}
        # Where the query begins, until its first micro-batch is finished.
        self._initial: StreamOffsets | None = None
        # The end of the micro-batch whose tasks were made last.
        self._planned: StreamOffsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """As for every stream."""
        start = super().initialOffset()
        self._before = self._initial = parse(start)
        return start

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name of before
        """The present ends of the logs, at which the next micro-batch ends."""
        if self._planned is not None:
            self._publish(self._planned)
            self._initial = None
        self._before = self._ends(self._before)
        return as_json_object(self._before)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the micro-batch from `start` to `end`. Raises DataLossError, TooManyTasksError."""
        before, now = parse(start), parse(end)
        self._before = self._before or now
        selects = self._options.read.subscription.selects
        # Spark asks for the end of the first micro-batch before it asks where the query begins; if it repeats
        # that one, long before. Nothing was read yet that could be lost.
        if before != self._initial:
            report_losses(find_losses(before, now, selects), self._options.read.fail_on_data_loss)
        self._planned = now
        return self._tasks(without_lost(before, now, selects), now)
