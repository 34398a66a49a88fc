"""What is deleted, and what never is."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_files import Fault
from hightide_broker.storage import LogSettings, OffsetOutOfRange
from log_rig import LogRig, apply_retention, offsets
from stored_batches import make_batch

SIZE = len(make_batch(1))
DAY_US = 24 * 3600 * 1_000_000


def in_days(days: int) -> int:
    return time.time_ns() // 1000 + days * DAY_US


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """A log of ten batches, four to a segment."""
    rig = LogRig(
        tmp_path, LogSettings(segment_bytes=4 * SIZE, retention_ms=DAY_US // 1000, segment_ms=10**12)
    )
    rig.fill(6, epoch=1)
    rig.fill(4, epoch=2)
    yield rig
    rig.close()


def test_nothing_goes_before_its_time(rig: LogRig) -> None:
    assert apply_retention(rig.log, in_days(0), 10) == 0
    assert len(rig.segments()) == 3


def test_old_segments_go_whole(rig: LogRig) -> None:
    assert apply_retention(rig.log, in_days(2), 10) == 10
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.log.size_bytes) == (10, 10, 0)
    assert rig.names(".log") == ["10"]
    assert rig.names(".index") == []


@pytest.mark.parametrize(("high_watermark", "start"), [(0, 0), (3, 0), (4, 4), (7, 4), (9, 8), (10, 10)])
def test_nothing_at_or_above_the_high_watermark_goes(rig: LogRig, high_watermark: int, start: int) -> None:
    assert apply_retention(rig.log, in_days(2), high_watermark) == start
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_bytes=0))
    assert apply_retention(rig.log, in_days(2), high_watermark) == start


@pytest.mark.parametrize(("leaders_start", "start"), [(0, 0), (3, 0), (4, 4), (9, 8), (10, 10), (99, 10)])
def test_what_the_leader_has_deleted_goes_here_too_in_whole_segments(
    rig: LogRig, leaders_start: int, start: int
) -> None:
    assert apply_retention(rig.log, in_days(0), 10, leaders_start) == start


def test_the_leader_s_word_deletes_nothing_that_is_not_committed(rig: LogRig) -> None:
    assert apply_retention(rig.log, in_days(0), 7, 99) == 4


def test_an_empty_log_keeps_its_place_over_a_restart(rig: LogRig) -> None:
    apply_retention(rig.log, in_days(2), 10)
    assert (rig.crash().log_start_offset, rig.log.log_end_offset) == (10, 10)
    rig.append(1, epoch=2)
    assert offsets(rig.restart()) == [10]


def test_size_retention_keeps_at_least_so_many_bytes(rig: LogRig) -> None:
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_bytes=6 * SIZE))
    assert apply_retention(rig.log, in_days(0), 10) == 4
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_bytes=5 * SIZE))
    assert apply_retention(rig.log, in_days(0), 10) == 4
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_bytes=0))
    assert apply_retention(rig.log, in_days(0), 10) == 8


def test_minus_one_keeps_for_ever(rig: LogRig) -> None:
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_ms=-1, segment_ms=10**12))
    assert apply_retention(rig.log, in_days(10_000), 10) == 0


def test_records_with_old_timestamps_are_kept_as_long_as_others(rig: LogRig) -> None:
    # The records of this test are of 1970; a topic may be filled with old data today.
    assert rig.log.find_timestamp(0, 10) is not None
    assert apply_retention(rig.log, in_days(0), 10) == 0


def test_an_active_segment_that_is_old_enough_is_closed(rig: LogRig) -> None:
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_ms=-1, segment_ms=DAY_US // 1000))
    apply_retention(rig.log, in_days(0), 10)
    apply_retention(rig.log, in_days(2), 10)
    rig.append(1, epoch=2)
    assert rig.names(".log") == ["0", "4", "8", "10"]


def test_epochs_follow_the_start(rig: LogRig) -> None:
    for high_watermark, epochs in [(4, [(1, 4), (2, 6)]), (8, [(2, 8)])]:
        apply_retention(rig.log, in_days(2), high_watermark)
        assert list(rig.log.epochs.entries) == epochs
        assert list(rig.crash().epochs.entries) == epochs


def test_reading_below_the_start_is_out_of_range_even_if_in_memory(rig: LogRig) -> None:
    apply_retention(rig.log, in_days(2), 4)
    with pytest.raises(OffsetOutOfRange):
        rig.log.read(3, 100, 10)


def test_a_full_disk_on_which_no_segment_can_be_closed_gets_room_all_the_same(rig: LogRig) -> None:
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_bytes=0, segment_ms=DAY_US // 1000))
    apply_retention(rig.log, in_days(0), 0)
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, "dex.tmp", lasting=True))
    assert apply_retention(rig.log, in_days(2), 10) == 8
    assert rig.names(".log") == ["8"]
