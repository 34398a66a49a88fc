"""A log that begins where an operator said: inside a segment, or inside a batch."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from faulty_files import Fault, FaultyFiles, SimulatedCrash
from hightide_broker.storage import (
    DataDirectory,
    DiskFull,
    LogClosed,
    LogSettings,
    OffsetOutOfRange,
    StorageFailed,
)
from log_rig import KEY, LogRig, apply_retention, offsets
from stored_batches import as_sent_by_leader, make_batch

SIZE = len(make_batch(3))
POWER_CUTS = 20


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """Ten batches of three records, four batches to a segment: offsets 0 to 30."""
    rig = LogRig(tmp_path, LogSettings(segment_bytes=4 * SIZE))
    for place in range(10):
        rig.append(epoch=1 + place // 5)
    yield rig
    rig.close()


def delete(rig: LogRig, before: int) -> None:
    rig.log.move_start(before)
    rig.log.persist_start()
    apply_retention(rig.log, time.time_ns() // 1000, 30)


def test_nobody_reads_below_and_the_batch_that_holds_the_start_stays_whole(rig: LogRig) -> None:
    delete(rig, 4)
    assert rig.log.log_start_offset == 4
    with pytest.raises(OffsetOutOfRange):
        rig.log.read(3, 1 << 20, 30)
    assert offsets(rig.log)[0] == 3
    assert len(rig.segments()) == 3


def test_segments_that_lie_below_go(rig: LogRig) -> None:
    delete(rig, 25)
    assert rig.names(".log") == ["24"]
    assert rig.log.size_bytes == 2 * SIZE
    assert [entry.start_offset for entry in rig.log.epochs.entries] == [24]


def test_all_may_go_and_the_log_goes_on(rig: LogRig) -> None:
    delete(rig, 30)
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.log.size_bytes) == (30, 30, 0)
    assert rig.append(epoch=2) == 33
    rig.crash()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (30, 33)


@pytest.mark.parametrize("end", [LogRig.restart, LogRig.crash])
def test_a_restart_brings_nothing_back(rig: LogRig, end: object) -> None:
    delete(rig, 16)
    end(rig)  # type: ignore[operator]
    assert rig.log.log_start_offset == 16
    assert offsets(rig.log)[0] == 15
    assert rig.log.high_watermark_checkpoint <= 30
    assert rig.append(epoch=2) == 33


def test_a_clean_close_writes_down_what_was_moved_in_memory_only(rig: LogRig) -> None:
    rig.log.move_start(16)
    rig.restart()
    assert rig.log.log_start_offset == 16
    rig.log.move_start(19)
    rig.crash()
    assert rig.log.log_start_offset == 16, "which nobody was told to be durable"


def test_a_start_moves_forward_only(rig: LogRig) -> None:
    delete(rig, 16)
    rig.log.move_start(4)
    assert rig.log.log_start_offset == 16


def test_a_power_cut_that_takes_what_lies_above_leaves_an_empty_log_there(tmp_path: Path) -> None:
    ends = set()
    for seed in range(POWER_CUTS):
        rig = LogRig(tmp_path / str(seed), LogSettings(segment_bytes=4 * SIZE))
        for place in range(10):
            rig.append()
            if place == 0:
                rig.log.flush()
        rig.log.move_start(25)
        rig.log.persist_start()
        rig.cut_power(seed)
        ends.add(end := rig.log.log_end_offset)
        assert rig.log.log_start_offset == 25
        if end == 25:
            assert rig.log.epochs.entries == ()
            assert rig.append(epoch=2) == 28
        rig.close()
    assert {25, 27} <= ends


def test_a_power_cut_brings_nothing_back_below_a_start_that_was_written_down(tmp_path: Path) -> None:
    """Other records would lie there than those that were deleted, and would count as committed: the log
    would seem to differ from its leader's."""
    for seed in range(POWER_CUTS):
        rig = LogRig(tmp_path / str(seed))
        rig.append(3, b"never committed", epoch=1)
        rig.log.flush()
        rig.log.truncate_to(0)
        rig.log.append_as_follower(as_sent_by_leader(make_batch(3), 0, 2))
        rig.log.move_start(2)
        rig.log.persist_start()
        rig.cut_power(seed)
        assert rig.log.log_start_offset == 2
        assert (1, 0) not in rig.log.epochs.entries
        rig.close()


def test_a_log_whose_first_segment_went_with_the_power_has_lost_its_front(rig: LogRig) -> None:
    """It is younger than the last checkpoint, so nothing else says where it begins. A replica that took its
    second segment for its first began where its leader may have nothing yet, and accused it of a loss."""
    rig.settles = False
    rig.close(clean=False)
    rig.segments()[0].unlink()
    rig.files.cut_power(Random(1))
    rig.open()
    assert rig.log.lost_data
    assert rig.log.log_start_offset == 0


def test_a_log_that_begins_anew_further_down_hides_nothing_of_what_comes(rig: LogRig) -> None:
    delete(rig, 25)
    rig.log.truncate_and_start_at(10)
    assert rig.append(epoch=3) == 13
    rig.crash()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (10, 13)
    assert offsets(rig.log) == [10]


def test_a_kill_within_a_beginning_further_down_leaves_the_old_log_or_one_that_begins_there(
    tmp_path: Path,
) -> None:
    """Only an unclean election begins a log further down. A log that were empty at its old start would lack
    what the new leader has below, and nobody would notice."""
    for steps in range(60):
        rig = LogRig(tmp_path / str(steps), LogSettings(segment_bytes=4 * SIZE))
        for _ in range(10):
            rig.append()
        delete(rig, 25)
        rig.files.crash_in = steps
        try:
            rig.log.truncate_and_start_at(10)
        except SimulatedCrash:
            rig.files.crash_in, rig.files.crashed = None, False
            rig.crash()
            is_old = bool(rig.log.epochs.entries)
            assert is_old or rig.log.log_start_offset == 10, steps
            rig.close()
        else:
            rig.files.crash_in = None
            rig.close()
            return
    pytest.fail("it takes fewer steps")


def test_a_power_cut_within_a_beginning_further_down_does_so_too(tmp_path: Path) -> None:
    for seed in range(2 * POWER_CUTS):
        rig = LogRig(tmp_path / str(seed), LogSettings(segment_bytes=4 * SIZE))
        for _ in range(10):
            rig.append()
        delete(rig, 25)
        rig.directory.checkpoint_high_watermarks({KEY: 30})
        rig.log.truncate_and_start_at(10)
        rig.append(epoch=3)
        if seed % 2:
            rig.log.flush()
        rig.cut_power(seed)
        is_old = 1 in [each.epoch for each in rig.log.epochs.entries]
        assert is_old or rig.log.log_start_offset == 10, seed
        if seed % 2:
            assert (rig.log.log_start_offset, rig.log.log_end_offset) == (10, 13)
        rig.close()


def test_nothing_of_a_log_that_begins_anew_is_durable_before_its_start(rig: LogRig) -> None:
    rig.log.flush()
    rig.log.truncate_and_start_at(25)
    assert rig.log.durable_end_offset == 0
    assert rig.log.flush() == 25


@pytest.mark.parametrize(
    "end", [lambda _: None, LogRig.restart, LogRig.crash], ids=["runs on", "stopped", "killed"]
)
def test_a_log_that_began_anew_lacks_nothing_after_a_power_cut_once_it_is_flushed(
    tmp_path: Path, end: Callable[[LogRig], object]
) -> None:
    """Else it would seem to have lost its oldest records, which all replicas have deleted."""
    for seed in range(POWER_CUTS):
        rig = LogRig(tmp_path / str(seed))
        rig.append(10)
        rig.restart()
        rig.log.truncate_and_start_at(25)
        rig.append(epoch=2)
        end(rig)
        rig.append(epoch=2)
        rig.log.flush()
        rig.cut_power(seed)
        assert not rig.log.lacks_front
        assert (rig.log.log_start_offset, rig.log.log_end_offset) == (25, 31)
        rig.close()


def test_a_cut_at_the_start_takes_the_batch_that_holds_it(rig: LogRig) -> None:
    delete(rig, 25)
    assert rig.log.truncate_to(25) == 25
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (25, 25)
    rig.crash()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (25, 25)


def test_a_cut_at_a_start_that_is_not_written_down_yet_does_so_too(rig: LogRig) -> None:
    rig.log.move_start(16)
    assert rig.log.truncate_to(16) == 16
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (16, 16)
    assert rig.append(epoch=2) == 19


def test_times_are_found_from_the_start_on_also_inside_its_batch(rig: LogRig) -> None:
    delete(rig, 4)
    found = rig.log.find_timestamp(0, 30)
    assert found is not None
    assert found.offset == 4


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [b"nonsense", b"", None])
def test_what_a_damaged_file_said_is_known_from_elsewhere_and_it_says_it_again(
    rig: LogRig, damage: bytes | None, clean: bool
) -> None:
    delete(rig, 16)
    rig.close(clean)
    path = rig.log_directory / "log_start"
    said = path.read_bytes()
    path.unlink() if damage is None else path.write_bytes(damage)
    rig.open()
    assert rig.log.log_start_offset == 16
    assert not rig.log.lost_data
    assert path.read_bytes() == said


def test_retention_writes_down_where_the_log_begins_before_it_deletes(rig: LogRig) -> None:
    """A crash in between leaves segments in front of the start, and never a start without its segment."""
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_bytes=SIZE))
    rig.files.faults.append(Fault("replace", errno.EIO, ".log"))
    with pytest.raises(StorageFailed):
        apply_retention(rig.log, time.time_ns() // 1000, 30)
    assert rig.names(".log") == ["0", "12", "24"]
    rig.crash()
    assert rig.log.log_start_offset == 24
    assert not rig.log.lost_data


def test_producers_are_remembered_though_their_records_are_let_go_of(rig: LogRig) -> None:
    rig.append(epoch=2, producer=(7, 0, 0))
    rig.log.move_start(33)
    rig.log.persist_start()
    apply_retention(rig.log, time.time_ns() // 1000, 33)
    rig.crash()
    assert [each.producer_id for each in rig.log.describe_producers([7])] == [7]


def test_a_full_disk_deletes_what_lies_below_and_writes_the_start_down_in_the_room_that_this_makes(
    rig: LogRig,
) -> None:
    rig.log.move_start(25)
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, "log_start"))
    assert apply_retention(rig.log, time.time_ns() // 1000, 30) == 25
    assert rig.names(".log") == ["24"]
    rig.crash()
    assert rig.log.log_start_offset == 25


def test_a_full_disk_gives_the_room_of_indexes_to_the_start_before_it_gives_up_records(rig: LogRig) -> None:
    """A power cut after the segments, and before the start is written, would make the log seem to lack its
    front."""
    calls: list[tuple[str, str]] = []
    fault = Fault("write_at", errno.ENOSPC, "log_start", lasting=True)

    def called(call: str, path: str) -> None:
        calls.append((call, Path(path).name))
        if call == "remove" and path.endswith("index") and fault in rig.files.faults:
            rig.files.faults.remove(fault)

    rig.files.faults.append(fault)
    rig.files.on_call = called
    rig.log.move_start(25)
    rig.log.delete_before_start()
    assert calls.index(("replace", "log_start")) < calls.index(("remove", f"{0:020d}.log.tmp"))
    for seed in range(5):
        assert not rig.cut_power(seed).lost_data
        assert rig.log.log_start_offset == 25


def test_a_kill_on_a_disk_that_stays_full_does_not_make_a_log_seem_to_lack_what_was_deleted(
    rig: LogRig,
) -> None:
    """The segments are gone, and nowhere is room to write down where the log begins."""
    rig.log.move_start(25)
    for _ in range(2):
        rig.files.faults.append(Fault("write_at", errno.ENOSPC, "log_start", lasting=True))
        with suppress(DiskFull):
            rig.log.delete_before_start()
        assert rig.names(".log") == ["24"]
        rig.close(clean=False)
        full = FaultyFiles(rig.files)
        full.faults.append(Fault("write_at", errno.ENOSPC, ".tmp", lasting=True))
        directory = DataDirectory.open(rig.path, "cluster", 1, files=full)
        log = directory.log(*KEY, False, "flights", rig.settings)
        assert not log.lost_data
        assert log.log_start_offset == 25
        directory.close(clean=False)
        rig.open()
    rig.log.delete_before_start()
    rig.restart()
    assert not rig.log.lost_data
    assert rig.log.log_start_offset == 25


@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_a_power_cut_that_brings_back_a_deleted_segment_and_not_the_one_behind_it_changes_nothing(
    rig: LogRig, is_checkpointed: bool
) -> None:
    """The removal of a file is not synced, and disks need not write the names of files in order. What lies
    above the start is on disk, and was acknowledged."""
    oldest = rig.segments()[0]
    contents = oldest.read_bytes()
    rig.log.flush()
    delete(rig, 25)
    if is_checkpointed:
        rig.directory.checkpoint_high_watermarks({KEY: 30})
    rig.close(clean=False)
    oldest.write_bytes(contents)
    rig.open()
    assert not rig.log.lost_data
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (25, 30)
    assert offsets(rig.log)[-1] == 27
    assert rig.names(".log") == ["24"]


def test_a_log_begins_anew_further_up_on_a_full_disk(rig: LogRig) -> None:
    """It gives room. If it failed halfway, its replica would go on where no log is any more."""
    for call in ("open", "write_at"):
        rig.files.faults.append(Fault(call, errno.ENOSPC, ".log", lasting=True))
        rig.files.faults.append(Fault(call, errno.ENOSPC, ".tmp", lasting=True))
    rig.log.truncate_and_start_at(40)
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.log.epochs.entries) == (40, 40, ())
    rig.crash()
    assert not rig.log.lost_data
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.log.epochs.entries) == (40, 40, ())
    assert rig.append(epoch=5) == 43


def test_a_log_that_cannot_begin_anew_further_down_for_want_of_room_stays_as_it_is(rig: LogRig) -> None:
    delete(rig, 25)
    before = offsets(rig.log)
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, "log_start", lasting=True))
    with pytest.raises(DiskFull):
        rig.log.truncate_and_start_at(10)
    for end in (lambda _: None, LogRig.crash):
        end(rig)
        assert (rig.log.log_start_offset, rig.log.log_end_offset) == (25, 30)
        assert offsets(rig.log) == before
    assert not rig.log.lost_data


def test_a_full_disk_where_a_start_cannot_be_written_still_deletes_by_size(rig: LogRig) -> None:
    rig.log.move_start(4)
    rig.log.update_settings(LogSettings(segment_bytes=4 * SIZE, retention_bytes=SIZE))
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, "log_start", lasting=True))
    assert apply_retention(rig.log, time.time_ns() // 1000, 30) == 24
    assert rig.names(".log") == ["24"]
    with pytest.raises(DiskFull):
        apply_retention(rig.log, time.time_ns() // 1000, 30)
    rig.files.faults.clear()


def test_a_full_disk_where_all_may_go_keeps_the_last_segment_for_a_round(rig: LogRig) -> None:
    rig.log.move_start(30)
    now_us = time.time_ns() // 1000
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, lasting=True))
    apply_retention(rig.log, now_us, 30)
    assert rig.names(".log") == ["24"]
    rig.files.faults.clear()
    assert apply_retention(rig.log, now_us, 30) == 30
    assert rig.log.size_bytes == 0


def test_a_full_disk_that_has_no_room_for_the_start_is_closed_cleanly_all_the_same(rig: LogRig) -> None:
    rig.log.move_start(16)
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, "log_start", lasting=True))
    rig.log.close()
    assert rig.log.is_closed
    assert rig.log.durable_end_offset == 30
    rig.files.faults.clear()


def test_a_disk_that_fails_then_is_out_of_service(rig: LogRig) -> None:
    rig.log.move_start(16)
    rig.files.faults.append(Fault("sync", errno.EIO, "log_start"))
    with pytest.raises(StorageFailed):
        rig.log.persist_start()


def test_a_log_that_is_closed_writes_nothing_more(rig: LogRig) -> None:
    rig.log.move_start(16)
    rig.log.abandon()
    with pytest.raises(LogClosed):
        rig.log.persist_start()


def test_the_start_of_a_log_that_was_put_aside_hides_nothing_of_the_next_one(rig: LogRig) -> None:
    """After a kill its mark says that it is gone. But marks are of one boot, and checkpoints are older."""
    delete(rig, 25)
    rig.directory.checkpoint_high_watermarks({KEY: 30})
    rig.directory.quarantine(*KEY, rig.directory.now_us())
    rig.crash()
    rig.append(epoch=3)
    rig.log.flush()
    rig.cut_power(1)
    assert rig.log.log_start_offset == 0
    assert offsets(rig.log) == [0]


@pytest.mark.parametrize("clean", [False, True])
def test_nor_does_that_of_a_log_that_was_lost(rig: LogRig, clean: bool) -> None:
    delete(rig, 25)
    rig.directory.checkpoint_high_watermarks({KEY: 30})
    rig.close(clean)
    shutil.rmtree(rig.log_directory)
    assert rig.open().lost_data
    rig.append(30, epoch=3)
    rig.log.flush()
    rig.cut_power(1)
    assert rig.log.log_start_offset == 0
    assert offsets(rig.log) == [0]


def test_a_log_that_finds_no_room_in_quarantine_begins_where_only_its_mark_says(rig: LogRig) -> None:
    rig.cut_power(1)  # So that the marks which this life finds are not of the last one.
    end = rig.log.log_end_offset
    rig.log.truncate_and_start_at(end + 1)
    rig.log.flush()
    rig.files.faults.append(Fault("open", errno.ENOSPC, "log_start", lasting=True))
    rig.log.truncate_and_start_at(end + 5)
    rig.files.faults = [Fault("make_directory", errno.ENOSPC, "quarantine", lasting=True)]
    with pytest.raises(DiskFull):
        rig.directory.quarantine(*KEY, rig.directory.now_us())
    log = rig.directory.log(*KEY, False, "flights", rig.settings)
    assert (log.log_start_offset, log.lost_data) == (end + 5, False)


def test_nor_is_it_taken_to_be_as_the_last_process_left_it(rig: LogRig) -> None:
    rig.log.truncate_and_start_at(35)
    rig.restart()
    rig.log.truncate_and_start_at(40)
    rig.files.faults = [Fault("make_directory", errno.ENOSPC, "quarantine", lasting=True)]
    with pytest.raises(DiskFull):
        rig.directory.quarantine(*KEY, rig.directory.now_us())
    log = rig.directory.log(*KEY, False, "flights", rig.settings)
    assert (log.log_start_offset, log.log_end_offset, log.lost_data) == (40, 40, False)
