"""A streaming read where Spark has admission control (4.2 and later). The driver chooses the end of each
micro-batch, and workers read its ranges.

Theory of operation. For each trigger Spark calls `latestOffset` with the end of the last finished
micro-batch. This call does three things: it commits that end to the group of option groupId, asks the cluster
for the ends of the logs, and looks for losses.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from hightide_spark.core.admission import Patience, admit
from hightide_spark.core.data_loss import find_losses, without_lost
from hightide_spark.core.ranges import between
from hightide_spark.core.stream_offsets import StreamOffsets, as_json_object, parse
from hightide_spark.source.micro_batches import MicroBatchReader
from hightide_spark.source.planned_read import report_losses

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StreamReader(MicroBatchReader, SupportsTriggerAvailableNow):
    """Reads micro-batches within the limits of the options."""

    def __init__(self, given: Mapping[str, str], schema: "StructType") -> None:
        super().__init__(given, schema)
        self._patience = Patience(
            self._options.min_offsets_per_trigger or 0, self._options.max_trigger_delay_ms
        )
        # With Trigger.AvailableNow the ends of the logs at its start, else None.
        self._available_ends: StreamOffsets | None = None
        self._latest: StreamOffsets | None = None

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

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The ends of the logs, for the query's progress. Their difference to its end offsets is the lag."""
        return None if self._latest is None else as_json_object(self._latest)
