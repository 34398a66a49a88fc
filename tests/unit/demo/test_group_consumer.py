"""What one of the demo's consumers reports of the records that it was handed."""

import json
from pathlib import Path

from hightide import Record, TopicPartition
from hightide_demo.group_consumer import ConsumerSettings, OwnershipReporter, runs
from hightide_demo.group_reports import HandedOut, PartitionGiven, PartitionTaken, parse_report


def record(partition: int, offset: int) -> Record:
    return Record("flights", partition, offset, 0, None, b"")


def records(*places: tuple[int, int]) -> list[Record]:
    return [record(partition, offset) for partition, offset in places]


def test_consecutive_records_of_a_partition_are_one_run() -> None:
    handed_out = records((0, 5), (0, 6), (0, 7), (1, 8), (1, 9), (0, 8))
    assert list(runs(handed_out)) == [(0, 5, 8), (1, 8, 10), (0, 8, 9)]


def test_a_gap_begins_a_new_run_so_that_what_is_skipped_shows() -> None:
    assert list(runs(records((0, 5), (0, 7)))) == [(0, 5, 6), (0, 7, 8)]


def test_a_record_handed_out_twice_begins_a_new_run() -> None:
    assert list(runs(records((0, 5), (0, 5)))) == [(0, 5, 6), (0, 5, 6)]


def test_nothing_handed_out_is_no_run() -> None:
    assert list(runs([])) == []


def test_a_report_names_the_generation_in_which_the_partition_was_given(tmp_path: Path) -> None:
    path = tmp_path / "consumer-1.jsonl"
    reporting = OwnershipReporter(str(path))
    reporting.given({TopicPartition("flights", 0): 3})
    reporting.handed_out(records((0, 5), (0, 6)))
    reporting.taken([TopicPartition("flights", 0)])
    reporting.given({TopicPartition("flights", 0): 5})
    reporting.handed_out(records((0, 7)))
    reporting.is_over = True
    reporting.taken([TopicPartition("flights", 0)])
    found = [parse_report(line) for line in path.read_bytes().splitlines()]
    assert [(type(each), each.partition, each.generation) for each in found] == [
        (PartitionGiven, 0, 3),
        (HandedOut, 0, 3),
        (PartitionTaken, 0, 3),
        (PartitionGiven, 0, 5),
        (HandedOut, 0, 5),
    ]


def test_settings_go_through_a_command_line() -> None:

    settings = ConsumerSettings("127.0.0.1:1", "g", "t", "c", 6_000, "/r")
    assert ConsumerSettings(**json.loads(settings.argument())) == settings
