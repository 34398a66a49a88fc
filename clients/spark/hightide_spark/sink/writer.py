"""The writers that Spark calls: made on the driver, pickled, and used in each task."""

import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hightide.producer_key import ProducerKey
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from hightide_spark.core.sink_columns import SinkColumns, sink_columns
from hightide_spark.core.sink_options import WriteOptions, write_options
from hightide_spark.spark_versions import stream_arrow_writer

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """A task's message to the driver. All rows are in the log by then; the driver has nothing to commit."""

    row_count: int


class BatchWriter(DataSourceArrowWriter):
    """A batch write. Its producers are named by a random id, or by txnAppId and txnVersion if they are
    given."""

    def __init__(self, options: WriteOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns
        if options.txn is None:
            self._name, self._version = f"batch/{uuid.uuid4()}", 0
            self._who = "the write"
        else:
            self._name, self._version = f"txn/{options.txn[0]}", options.txn[1]
            self._who = f"txnAppId {options.txn[0]}, txnVersion {options.txn[1]}"

    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        """Write the rows of one task. Called in Spark's workers. Raises the errors of `SinkTask.write`."""
        task = _task_context()
        part = task.partitionId()
        key = ProducerKey(self._name, part, self._version) if self._options.is_exactly_once else None
        who = f"{self._who}, Spark partition {part}"
        return _written(self._options, self._columns, who, key, iterator)


class StreamWriter(stream_arrow_writer()):  # type: ignore[misc]
    """A streaming write. The producer of a task is named by the query's id, which is in its checkpoint, and
    by the Spark partition; its epoch is the micro-batch's number."""

    def __init__(self, options: WriteOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        """Write the rows of one task of a micro-batch. Called in Spark's workers. Raises the errors of
        `SinkTask.write`."""
        task = _task_context()
        part = task.partitionId()
        query_id = task.getLocalProperty("sql.streaming.queryId")
        batch_id = task.getLocalProperty("streaming.sql.batchId")
        assert query_id is not None, "Spark tells each task of a stream its query"
        assert batch_id is not None, "Spark tells each task of a stream its micro-batch"
        name = f"spark/{query_id}"
        key = ProducerKey(name, part, int(batch_id)) if self._options.is_exactly_once else None
        who = f"query {query_id}, micro-batch {batch_id}, Spark partition {part}"
        return _written(self._options, self._columns, who, key, iterator)


def _written(
    options: WriteOptions, columns: SinkColumns, who: str, key: ProducerKey | None, batches: Iterator[Any]
) -> TaskWritten:
    # Here, because the driver makes and pickles writers in a process that sends nothing.
    from hightide_spark.sink.task import SinkTask

    return TaskWritten(SinkTask(options, columns, who, key).write(batches))


def _task_context() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "write is called in a Spark task"
    return task


def batch_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> DataSourceWriter:
    """The writer of a batch write. Raises OptionError, UnsupportedSchemaError."""
    checked = write_options(options, is_streaming=False, overwrite=overwrite)
    _warn(checked)
    return BatchWriter(checked, _columns(schema, checked))


def stream_writer(
    options: Mapping[str, str], schema: "StructType", overwrite: bool
) -> DataSourceStreamWriter:
    """The writer of a stream. Raises OptionError, UnsupportedSchemaError."""
    checked = write_options(options, is_streaming=True, overwrite=overwrite)
    _warn(checked)
    return StreamWriter(checked, _columns(schema, checked))


def _warn(options: WriteOptions) -> None:
    for warning in options.warnings:
        _LOG.warning("%s", warning)


def _columns(schema: "StructType", options: WriteOptions) -> SinkColumns:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    return sink_columns(types, options.topic)
