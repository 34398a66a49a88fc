"""The work of one Spark task: rows are gathered, divided by log partition, and sent to all partitions at
once."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from hightide.errors import UndeliveredError
from hightide.producer import Producer
from hightide.producer_key import ProducerKey
from hightide.records import TopicPartition

from hightide_spark.core.batch_pieces import pieces
from hightide_spark.core.sink_columns import SinkColumns
from hightide_spark.core.sink_options import WriteOptions
from hightide_spark.sink.partition_writer import ExactlyOnce, PartitionWriter

#: Rows are gathered until there is about this much for each log partition, or GATHERED_BYTES_MAX in all.
GATHERED_BYTES: Final = 2 << 20
GATHERED_BYTES_MAX: Final = 32 << 20
#: The largest value that max.message.bytes of a topic may have.
ROW_BYTES_MAX: Final = 15 << 20
BUFFER_MEMORY_BYTES: Final = 32 << 20


class SinkTask:
    """One attempt of one task. `who` names it in errors. Without a key rows are written at least once.

    Memory: twice GATHERED_BYTES_MAX for gathered rows, twice BUFFER_MEMORY_BYTES for rows under way (as rows
    and as bytes), and after a conflict 24 bytes for each row that other attempts wrote.
    """

    def __init__(
        self, options: WriteOptions, columns: SinkColumns, who: str, key: ProducerKey | None
    ) -> None:
        self._columns = columns
        self._who = who
        self._producer = Producer(
            **options.cluster.arguments("hightide-spark-sink"),
            key=key,
            linger_ms=0,
            # Batches are cut before. Only the topic's max.message.bytes limits a single row.
            batch_bytes_max=ROW_BYTES_MAX,
            buffer_memory_bytes=BUFFER_MEMORY_BYTES,
            compression=options.compression,
            delivery_timeout_ms=options.delivery_timeout_ms,
            max_block_ms=options.delivery_timeout_ms,
        )
        self._exactly_once = (
            None
            if key is None
            else ExactlyOnce(who, key, options.cluster, with_timestamps=columns.has_timestamps)
        )
        self._writers: dict[tuple[str, int], PartitionWriter] = {}
        self._partition_counts: dict[str, int] = {}
        self._row_count = 0

    def write(self, batches: Iterable[Any]) -> int:
        """Write all rows, and return their number when all are in the log. The writer of `sink.writer` calls
        it once. Raises UnsupportedRowError, ExactlyOnceError, and the SDK's errors."""
        try:
            for rows in self._gathered(batches):
                for group in self._columns.share_out(rows, self._partition_count, self._row_name):
                    self._writer(group.topic, group.partition).send(group.rows)
                for writer in self._writers.values():
                    writer.settle()
                self._row_count += rows.num_rows
            for writer in self._writers.values():
                writer.finish()
            if self._exactly_once is not None:
                self._exactly_once.finish(self._unwritten())
        finally:
            # Rows are undelivered only if the task failed. Then Spark makes another attempt, which sends
            # them.
            with suppress(UndeliveredError):
                self._producer.close(timeout_s=0)
        return self._row_count

    def _gathered(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same rows in larger pieces, so that dividing one by partition gives large parts."""
        gathered: list[Any] = []
        gathered_bytes = 0
        for batch in batches:
            for part in pieces(batch, GATHERED_BYTES_MAX):
                gathered.append(part)
                gathered_bytes += part.nbytes
                if gathered_bytes >= min(GATHERED_BYTES_MAX, GATHERED_BYTES * self._known_partition_count):
                    yield _joined(gathered)
                    gathered, gathered_bytes = [], 0
        if gathered:
            yield _joined(gathered)

    @property
    def _known_partition_count(self) -> int:
        return max(1, sum(self._partition_counts.values()))

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            self._partition_counts[topic] = self._producer.partitions_for(topic)
        return self._partition_counts[topic]

    def _unwritten(self) -> Iterator[TopicPartition]:
        """The log partitions for which this task has no rows, of the topics for which it has rows."""
        for topic in self._partition_counts:
            for partition in range(self._producer.partitions_for(topic)):
                if (topic, partition) not in self._writers:
                    yield TopicPartition(topic, partition)

    def _row_name(self, index: int) -> str:
        return f"{self._who}: row {self._row_count + index}"

    def _writer(self, topic: str, partition: int) -> PartitionWriter:
        place = (topic, partition)
        if place not in self._writers:
            self._writers[place] = PartitionWriter(self._producer, topic, partition, self._exactly_once)
        return self._writers[place]


def _joined(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
