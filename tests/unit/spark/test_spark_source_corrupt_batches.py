"""A batch in the log that no reader can open: the task fails with what to do, or leaves it out and ends."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from adversary.batches import good_batch, poison
from hightide.batch.header import parse, stamp
from hightide.consuming.corrupt_batches import CorruptBatches, OnCorruptBatch
from hightide.consuming.fetch_position import FetchedBatch
from hightide.range_reader import RangeBatch
from hightide.records import TopicPartition
from hightide.transport.notices import log_notice
from hightide_spark.core.ranges import LogRange
from hightide_spark.core.source_options import batch_options
from hightide_spark.errors import CorruptBatchReadError
from hightide_spark.source import planned_read
from hightide_spark.source.planned_read import PlannedRead
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

TOPIC_ID = bytes(16)


class PoisonedLog:
    """Offsets 0 to 5 in batches of two, the last of which nobody can open; read as a RangeReader reads."""

    def __init__(self) -> None:
        self.reads = 0

    def read(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        start: int,
        end: int,
        *,
        on_corrupt_batch: OnCorruptBatch,
    ) -> Iterator[RangeBatch]:
        self.reads += 1
        assert self.reads < 3, "it reads on for ever"
        corrupt = CorruptBatches("fail", log_notice)
        good = good_batch(topic_id, partition, [b"a", b"b"])
        for base_offset, sent in ((0, good), (2, good), (4, poison(topic_id, partition))):
            batch = bytearray(sent)
            stamp(batch, 0, base_offset, 1)
            chunk = FetchedBatch(TopicPartition(topic, partition), parse(batch), memoryview(batch), 0, 0)
            rows = corrupt.opened(chunk, on_corrupt_batch)
            if rows is not None:
                yield RangeBatch(chunk.header, base_offset, rows)


def offsets_read(monkeypatch: pytest.MonkeyPatch, **options: str) -> list[int]:
    log = PoisonedLog()
    monkeypatch.setattr(planned_read, "range_reader_of", lambda cluster, fetch_max_bytes: log)
    given = {"bootstrap.servers": "broker:9092", "subscribe": "t", **options}
    read = PlannedRead.of(batch_options(given).read, StructType([StructField("offset", LongType())]))
    task = InputPartition(LogRange("t", TOPIC_ID.hex(), 0, 0, 6))
    found: list[Any] = [each for batch in read.rows(task) for each in batch.column("offset").to_pylist()]
    return found


def test_it_ends_the_query_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptBatchReadError) as raised:
        offsets_read(monkeypatch)
    assert "offsets 4 to 5 of t-0" in str(raised.value)
    assert "set ignoreCorruptBatches to true" in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_it_is_left_out_where_the_query_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert offsets_read(monkeypatch, ignoreCorruptBatches="true") == [0, 1, 2, 3]
    assert "offsets 4 to 5 of t-0" in caplog.text
