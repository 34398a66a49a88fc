"""The driver's side of a stream, against logs that move between its questions; the test answers for them."""

import pytest
from hightide.records import TopicPartition
from hightide_spark.source import cluster_questions
from hightide_spark.source.stream_reader import StreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType
from unit.spark.moving_logs import BusyGroup, HardOfHearing, MovingLogs, at


def stream(
    monkeypatch: pytest.MonkeyPatch, logs: MovingLogs, fail_on_data_loss: str, **options: str
) -> StreamReader:
    monkeypatch.setattr(cluster_questions, "admin_of", lambda bootstrap: logs)
    given = {"bootstrap.servers": "broker:9092", "subscribe": "t", "failOnDataLoss": fail_on_data_loss}
    return StreamReader(given | options, StructType([StructField("offset", LongType())]))


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_available_now_from_the_latest_on_takes_a_live_log_for_no_loss(
    monkeypatch: pytest.MonkeyPatch, fail_on_data_loss: str
) -> None:
    reader = stream(monkeypatch, MovingLogs([100], [150, 0], [160, 5]), fail_on_data_loss)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    assert start == at(150, 0), "a partition was added, too"
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == at(160, 5)
    assert reader.latestOffset(end, ReadAllAvailable()) == end


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_available_now_asks_again_where_a_deposed_leader_told_an_earlier_end(
    monkeypatch: pytest.MonkeyPatch, fail_on_data_loss: str
) -> None:
    reader = stream(monkeypatch, MovingLogs([90], [120]), fail_on_data_loss)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(at(100), ReadAllAvailable()) == at(120)


def test_available_now_keeps_to_the_end_that_it_was_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = stream(monkeypatch, MovingLogs([100], [120]), "true")
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(at(40), ReadAllAvailable()) == at(100)


def test_a_stream_begins_at_partitions_of_which_a_broker_has_not_heard_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = stream(monkeypatch, HardOfHearing([100, 0]), "true")
    assert reader.initialOffset() == at(100, 0)


def test_a_stream_from_the_latest_on_starts_where_it_said_first_although_its_log_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = stream(monkeypatch, MovingLogs([100], [160], [150]), "true", startingOffsets="latest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert (reader.initialOffset(), end) == (at(100), at(110)), "Spark asks again, and plans from there"


def test_available_now_tells_its_group_the_end_although_it_was_refused_a_moment_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = BusyGroup()
    monkeypatch.setattr("hightide.Admin", lambda *_, **__: group)
    reader = stream(monkeypatch, MovingLogs([100]), "true", groupId="g")
    reader.prepareForTriggerAvailableNow()
    for start in (0, 40, 100):
        reader.latestOffset(at(start), ReadAllAvailable())
    here = TopicPartition("t", 0)
    assert (group.refused, group.told) == ([{here: 0}], [{here: 100}])
