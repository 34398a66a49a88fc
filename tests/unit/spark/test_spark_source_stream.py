"""The driver's side of a stream, against logs that move between its questions; the test answers for them."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hightide.records import PartitionDescription, TopicDescription, TopicPartition
from hightide_spark.source import cluster_questions
from hightide_spark.source.stream_reader import StreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

TOPIC_ID = bytes(16)


class MovingLogs:
    """Topic t. Each time its ends are asked for, the next ones are told; the last ones again and again."""

    def __init__(self, *ends: Sequence[int]) -> None:
        self._ends = list(ends)

    def describe_topics(self, names: Iterable[str] | None) -> list[TopicDescription]:
        partitions = tuple(PartitionDescription(at, 1, 1, (1,), (1,), 1) for at in range(len(self._ends[0])))
        return [TopicDescription("t", TOPIC_ID, partitions, {})]

    def list_offsets(self, partitions: Iterable[TopicPartition], when: Any) -> dict[TopicPartition, int]:
        assert when == "latest"
        ends = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        return {each: ends[each.partition] for each in partitions}


def stream(monkeypatch: pytest.MonkeyPatch, logs: MovingLogs, fail_on_data_loss: str) -> StreamReader:
    monkeypatch.setattr(cluster_questions, "admin_of", lambda bootstrap: logs)
    given = {"bootstrap.servers": "broker:9092", "subscribe": "t", "failOnDataLoss": fail_on_data_loss}
    return StreamReader(given, StructType([StructField("offset", LongType())]))


def at(*ends: int) -> dict[str, Any]:
    return {"t": {"id": TOPIC_ID.hex(), "offsets": {str(number): end for number, end in enumerate(ends)}}}


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
