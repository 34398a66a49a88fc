"""Streams and options in a Spark that lacks what later ones have: 4.0 and 4.1 ask for the end of a
micro-batch without its start and without a limit."""

from typing import Any

import pyspark
import pytest
from hightide.records import TopicPartition
from hightide_spark import spark_versions
from hightide_spark.errors import NewerSparkNeededError, RecordsLostError
from hightide_spark.source import cluster_questions, micro_batches
from hightide_spark.source.batch_reader import batch_reader
from hightide_spark.source.unlimited_stream_reader import UnlimitedStreamReader
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType, TimestampType
from unit.spark.moving_logs import BusyGroup, MovingLogs, at

SCHEMA = StructType([StructField("offset", LongType())])
GIVEN = {"bootstrap.servers": "broker:9092", "subscribe": "t"}


def stream(monkeypatch: pytest.MonkeyPatch, *ends: tuple[int, ...], **options: str) -> UnlimitedStreamReader:
    logs = MovingLogs(*ends)
    monkeypatch.setattr(cluster_questions, "admin_of", lambda bootstrap: logs)
    return UnlimitedStreamReader(GIVEN | options, SCHEMA)


def ranges(
    reader: UnlimitedStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[int, int]]:
    return [(each.value.start, each.value.end) for each in reader.partitions(start, end)]


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"])
def test_a_limit_of_micro_batches_needs_spark_4_2(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(spark_versions, "HAS_ADMISSION_CONTROL", False)
    with pytest.raises(NewerSparkNeededError) as refused:
        stream(monkeypatch, (1,), **{option: "5"})
    assert f"option {option} needs Spark 4.2 or later: Spark {pyspark.__version__}" in str(refused.value)
    assert "leave it out, and each one takes all records that are there" in str(refused.value)


def test_pushdown_needs_spark_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "HAS_FILTER_PUSHDOWN", False)
    with pytest.raises(NewerSparkNeededError, match=r"option pushdown needs Spark 4\.1 or later"):
        batch_reader(GIVEN | {"pushdown": "true"}, SCHEMA)
    batch_reader(GIVEN, SCHEMA)


def test_a_micro_batch_takes_all_records_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = stream(monkeypatch, (100, 7), (150, 7), (150, 9))
    start = reader.initialOffset()
    assert start == at(100, 7)
    for end, wanted in ((at(150, 7), [(100, 150)]), (at(150, 9), [(7, 9)])):
        assert reader.latestOffset() == end
        assert ranges(reader, start, end) == wanted
        start = end


def test_a_group_learns_the_end_of_a_micro_batch_when_spark_asks_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = BusyGroup()
    group.refused.append({})
    monkeypatch.setattr("hightide.Admin", lambda *_, **__: group)
    reader = stream(monkeypatch, (10,), (20,), (30,), groupId="g")
    start = reader.initialOffset()
    end = reader.latestOffset()
    reader.partitions(start, end)
    assert group.told == []
    reader.latestOffset()
    assert group.told == [{TopicPartition("t", 0): 20}]


def test_an_earlier_end_of_a_deposed_leader_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_batches, "_STALE_ENDS_PAUSE_S", 0.0)
    reader = stream(monkeypatch, (100,), (90,), (120,))
    start = reader.initialOffset()
    assert reader.latestOffset() == at(120)
    assert ranges(reader, start, at(120)) == [(100, 120)]


def test_a_stream_from_the_latest_on_takes_a_live_log_for_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks for the end of the first micro-batch before it asks where the query begins."""
    reader = stream(monkeypatch, (100,), (110,), (120,))
    end = reader.latestOffset()
    assert ranges(reader, reader.initialOffset(), end) == []
    assert reader.latestOffset() == at(120)
    assert ranges(reader, end, at(120)) == [(100, 120)]


def test_a_first_micro_batch_that_is_repeated_takes_a_live_log_for_no_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The query was stopped before it was finished, and failed at each start from then on."""
    reader = stream(monkeypatch, (110, 3), (120, 5))
    assert ranges(reader, reader.initialOffset(), at(100)) == []
    assert reader.latestOffset() == at(120, 5)
    assert ranges(reader, at(100), at(120, 5)) == [(100, 120), (0, 5)]


def test_where_nothing_was_read_since_the_start_a_loss_is_one_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = stream(monkeypatch, (100,))
    start = reader.initialOffset()
    assert ranges(reader, start, reader.latestOffset()) == []
    reader.latestOffset()
    with pytest.raises(RecordsLostError):
        reader.partitions(start, at(90))


def test_records_that_are_lost_fail_the_micro_batch_or_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RecordsLostError):
        stream(monkeypatch, (90,)).partitions(at(100), at(90))
    reader = stream(monkeypatch, (90,), failOnDataLoss="false")
    assert ranges(reader, at(100), at(90)) == []


def test_a_streaming_writer_gets_arrow_where_spark_has_no_class_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(datasource, "DataSourceStreamArrowWriter")
    writer = spark_versions.stream_arrow_writer()
    assert issubclass(writer, DataSourceArrowWriter)
    assert issubclass(writer, DataSourceStreamWriter)
    assert writer.commit is DataSourceStreamWriter.commit


def test_timestamps_are_in_utc_whatever_the_argument_for_that_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = StructType([StructField("timestamp", TimestampType())])
    expected = spark_versions.arrow_schema_of(schema)
    assert str(expected.field(0).type) == "timestamp[us, tz=UTC]"
    newer = to_arrow_schema

    def older(schema: StructType, timestamp_utc: bool = True) -> Any:
        assert timestamp_utc
        return newer(schema, timezone="UTC")

    monkeypatch.setattr(spark_versions, "to_arrow_schema", older)
    assert spark_versions.arrow_schema_of(schema) == expected
