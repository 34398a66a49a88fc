"""The part of a read that the driver settles and pickles for its tasks, and the reading of one task."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hightide.errors import (
    HightideError,
    RangeDeletedError,
    RangeLostError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
    UnreadableBatchError,
)
from pyspark.sql.datasource import InputPartition

from hightide_spark.core.arrow_columns import columns_of
from hightide_spark.core.cluster_options import Cluster
from hightide_spark.core.ranges import LogRange
from hightide_spark.core.source_options import FETCH_BYTES, ReadOptions
from hightide_spark.errors import (
    CorruptBatchReadError,
    DataLossError,
    PartitionsRemovedLossError,
    RecordsDeletedError,
    RecordsLostError,
    SparkConnectorError,
    TopicDeletedLossError,
    TopicRecreatedLossError,
)
from hightide_spark.source.connections import range_reader_of
from hightide_spark.spark_versions import arrow_schema_of

if TYPE_CHECKING:
    from hightide.range_reader import RangeBatch
    from pyspark.sql.types import StructType

_LOG = logging.getLogger(__name__)


def report_losses(losses: Sequence[SparkConnectorError], fail: bool) -> None:
    """Raise the first loss if `fail` (option failOnDataLoss), else log all of them as warnings."""
    if fail and losses:
        raise losses[0]
    for loss in losses:
        _LOG.warning("failOnDataLoss is false, so the read goes on: %s", loss.message)


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """The cluster, the columns, and whether a loss or an unreadable batch ends the read. The readers pickle
    it with themselves. `arrow_schema` is the schema that Spark wants, field by field for `columns`."""

    cluster: Cluster
    columns: tuple[str, ...]
    arrow_schema: Any
    fail_on_data_loss: bool
    ignore_corrupt_batches: bool = False
    fetch_max_bytes: int = FETCH_BYTES

    @classmethod
    def of(cls, options: ReadOptions, schema: "StructType") -> "PlannedRead":
        """Make it from the options and the schema of a read, on the driver. The log has a warning for each
        reason to ignore options. Raises UnsupportedSchemaError."""
        for warning in options.warnings:
            _LOG.warning("%s", warning)
        arrow_schema = arrow_schema_of(schema)
        return cls(
            options.cluster,
            columns_of(arrow_schema),
            arrow_schema,
            options.fail_on_data_loss,
            options.ignore_corrupt_batches,
            options.fetch_max_bytes,
        )

    def rows(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, as Arrow batches. Called in Spark's workers. Raises DataLossError,
        CorruptBatchReadError, and the SDK's errors if the cluster cannot be read."""
        if partition.value is None:
            return iter(())
        # Only a task needs it, and what it imports.
        from hightide_spark.source.spark_rows import SparkRows

        wanted: LogRange = partition.value
        rows = SparkRows(wanted.topic, wanted.partition, self.columns, self.arrow_schema)
        return rows.batches(self._read(wanted))

    def _read(self, wanted: LogRange) -> "Iterator[RangeBatch]":
        """The batches of a range. Records that retention deleted are skipped, any other loss ends the range,
        if the read tolerates losses."""
        start = wanted.start
        reader = range_reader_of(self.cluster, self.fetch_max_bytes)
        topic_id = bytes.fromhex(wanted.topic_id)
        while start < wanted.end:
            try:
                for batch in reader.read(
                    wanted.topic,
                    topic_id,
                    wanted.partition,
                    start,
                    wanted.end,
                    on_corrupt_batch="skip" if self.ignore_corrupt_batches else "fail",
                ):
                    start = batch.base_offset + batch.rows.num_rows
                    yield batch
                # `start` is not at the end here if the last batches were skipped as corrupt.
                return
            except UnreadableBatchError as error:
                raise CorruptBatchReadError(
                    error.message, topic=error.topic, partition=error.partition
                ) from error
            except RangeDeletedError as error:
                self._report_loss(RecordsDeletedError, wanted, start, error)
                start = max(start + 1, error.log_start_offset)
            except RangeLostError as error:
                return self._report_loss(RecordsLostError, wanted, start, error)
            except TopicRecreatedError as error:
                return self._report_loss(TopicRecreatedLossError, wanted, start, error)
            except UnknownTopicError as error:
                return self._report_loss(TopicDeletedLossError, wanted, start, error)
            except UnknownPartitionError as error:
                return self._report_loss(PartitionsRemovedLossError, wanted, start, error)

    def _report_loss(
        self, kind: type[DataLossError], wanted: LogRange, start: int, error: HightideError
    ) -> None:
        message = (
            f"the records {start} to {wanted.end - 1} of {wanted.topic}-{wanted.partition} cannot all be "
            f"read: {error.message}"
        )
        report_losses([kind(message, topic=wanted.topic, partition=wanted.partition)], self.fail_on_data_loss)
