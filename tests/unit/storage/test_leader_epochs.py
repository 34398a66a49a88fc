"""Where epochs start and end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from log_rig import KEY, LogRig
from stored_batches import as_sent_by_leader, make_batch


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """A log with epoch 2 from offset 0, 4 from 3 and 7 from 6, up to 9."""
    rig = LogRig(tmp_path)
    for epoch in (2, 4, 7):
        rig.append(3, epoch=epoch)
    yield rig
    rig.close()


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(1, (-1, 0)), (2, (2, 3)), (3, (2, 3)), (4, (4, 6)), (6, (4, 6)), (7, (7, 9)), (100, (7, 9))],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(
    rig: LogRig, asked: int, answer: tuple[int, int]
) -> None:
    assert rig.log.epochs.end_offset_for(asked, 9) == answer


def test_the_start_of_an_epoch_is_known_exactly_or_not_at_all(rig: LogRig) -> None:
    assert rig.log.epochs.start_of(4) == 3
    assert rig.log.epochs.start_of(5) is None


def test_becoming_leader_writes_nothing(rig: LogRig) -> None:
    path = rig.log_directory / "leader_epochs"
    before = path.read_bytes()
    rig.log.assign_epoch(9, 9)
    assert path.read_bytes() == before
    assert rig.log.epochs.end_offset_for(8, 9) == (7, 9)
    assert rig.crash().epochs.latest == 7


def test_the_first_record_of_an_epoch_writes_where_it_begins(rig: LogRig) -> None:
    rig.log.assign_epoch(9, 9)
    rig.append(1, epoch=9)
    rig.append(1, epoch=9)
    assert rig.crash().epochs.entries == ((2, 0), (4, 3), (7, 6), (9, 9))


@pytest.mark.parametrize("is_written", [False, True])
def test_an_epoch_without_records_makes_place_for_the_next(rig: LogRig, is_written: bool) -> None:
    rig.log.assign_epoch(9, 9)
    if is_written:
        rig.write_epochs()
    rig.log.assign_epoch(12, 9)
    assert rig.log.epochs.entries == ((2, 0), (4, 3), (7, 6), (12, 9))
    rig.append(1, epoch=12)
    assert rig.crash().epochs.entries == ((2, 0), (4, 3), (7, 6), (12, 9))


def test_an_epoch_that_made_place_in_memory_is_cut_from_the_file_too(rig: LogRig) -> None:
    rig.log.assign_epoch(9, 9)
    rig.write_epochs()
    rig.log.assign_epoch(12, 9)
    rig.log.truncate_to(9)
    assert rig.crash().epochs.entries == ((2, 0), (4, 3), (7, 6))


def test_a_restart_is_to_find_no_epoch_that_was_in_memory_only(rig: LogRig) -> None:
    """Neither after a clean stop nor after a kill is the file taken for one that has lost its end."""
    rig.log.assign_epoch(9, 9)
    for log in (rig.restart(), rig.crash()):
        assert log.epochs.entries == ((2, 0), (4, 3), (7, 6))
        assert not log.lost_data


def test_a_file_that_somebody_took_away_is_whole_again_with_the_next_epoch(rig: LogRig) -> None:
    rig.log.assign_epoch(9, 9)
    (rig.log_directory / "leader_epochs").unlink()
    rig.append(1, epoch=9)
    assert rig.crash().epochs.entries == ((2, 0), (4, 3), (7, 6), (9, 9))


def test_an_epoch_that_is_not_newer_changes_nothing(rig: LogRig) -> None:
    rig.log.assign_epoch(7, 9)
    rig.log.assign_epoch(3, 9)
    assert rig.log.epochs.entries == ((2, 0), (4, 3), (7, 6))


def test_truncation_forgets_epochs_that_start_behind_the_cut(rig: LogRig) -> None:
    rig.log.truncate_to(6)
    assert rig.log.epochs.entries == ((2, 0), (4, 3))
    assert rig.crash().epochs.entries == ((2, 0), (4, 3))


def test_a_cut_at_the_end_takes_the_epoch_that_has_no_records(rig: LogRig) -> None:
    """A leader that was replaced before it wrote anything follows one whose log goes on in an older epoch."""
    rig.log.assign_epoch(9, 9)
    assert rig.log.truncate_to(9) == 9
    assert rig.log.epochs.entries == ((2, 0), (4, 3), (7, 6))
    rig.log.append_as_follower(as_sent_by_leader(make_batch(3), 9, 7))
    assert rig.crash().epochs.entries == ((2, 0), (4, 3), (7, 6))


def test_an_epoch_of_a_log_without_data_is_written_with_its_first_record(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.log.assign_epoch(3, 0)
    rig.append(1, epoch=3)
    assert rig.crash().epochs.entries == ((3, 0),)
    rig.close()


def test_a_torn_entry_is_dropped_and_the_file_works_on(rig: LogRig) -> None:
    rig.close(clean=False)
    path = rig.log_directory / "leader_epochs"
    path.write_bytes(path.read_bytes() + b"torn")
    rig.open()
    assert rig.log.epochs.entries == ((2, 0), (4, 3), (7, 6))
    rig.append(1, epoch=8)
    assert rig.crash().epochs.latest == 8


POWER_CUTS = 40


def test_a_power_cut_brings_back_no_epoch_behind_which_older_records_were_appended(tmp_path: Path) -> None:
    """The epoch that was cut, at the end of the log again, would tell an election that the log is newer than
    those that have all of these records."""
    for seed in range(POWER_CUTS):
        rig = LogRig(tmp_path / str(seed))
        rig.append(3, epoch=1)
        rig.append(3, epoch=5)
        rig.log.flush()
        rig.log.truncate_to(3)
        rig.log.append_as_follower(as_sent_by_leader(make_batch(3), 3, 1))
        assert rig.cut_power(seed).epochs.entries == ((1, 0),)
        rig.close()


@pytest.mark.parametrize("stops", [0, 1, 2])
@pytest.mark.parametrize("recovery_reads", [False, True])
def test_nor_one_that_a_process_cut_which_was_killed(
    tmp_path: Path, recovery_reads: bool, stops: int
) -> None:
    """The next ones may have been told to stop, and have written nothing."""
    for seed in range(POWER_CUTS):
        rig = LogRig(tmp_path / str(seed))
        end_offset = rig.append(3, epoch=1)
        rig.restart()
        if recovery_reads:
            end_offset = rig.append(3, epoch=1)
        rig.append(3, epoch=5)
        rig.log.flush()
        rig.log.truncate_to(end_offset)
        rig.crash()
        for _ in range(stops):
            rig.restart()
        rig.log.append_as_follower(as_sent_by_leader(make_batch(3), end_offset, 1))
        assert rig.cut_power(seed).epochs.entries == ((1, 0),)
        rig.close()


def test_nor_the_last_epoch_of_other_records_where_a_cut_of_the_log_came_undone(tmp_path: Path) -> None:
    """The file has come through, and the log is as it was before the cut. It ends by chance where that epoch
    began: its leader would take what lies before for its own, and a follower would keep it."""
    rig = LogRig(tmp_path)
    rig.append(1, epoch=1)
    rig.log.flush()
    (segment,) = rig.segments()
    before_cut = segment.read_bytes()
    rig.log.truncate_to(0)
    rig.log.append_as_follower(as_sent_by_leader(make_batch(1, b"other"), 0, 3))
    rig.log.append_as_follower(as_sent_by_leader(make_batch(2, b"more"), 1, 4))
    assert rig.log.epochs.entries == ((3, 0), (4, 1))
    rig.close(clean=False)
    segment.write_bytes(before_cut)
    assert rig.open().epochs.entries == ((1, 0),)
    rig.close()


def test_no_high_watermark_is_kept_for_records_that_a_cut_may_replace(tmp_path: Path) -> None:
    """Otherwise the replica would take what came back for committed, and refuse to follow its leader."""
    for seed in range(POWER_CUTS):
        rig = LogRig(tmp_path / str(seed))
        rig.append(1, epoch=1)
        rig.append(2, epoch=1)
        rig.log.flush()
        rig.log.truncate_to(1)
        rig.log.append_as_follower(as_sent_by_leader(make_batch(2, b"other"), 1, 2))
        rig.directory.checkpoint_high_watermarks({KEY: 3})
        assert rig.cut_power(seed).high_watermark_checkpoint <= 1
        rig.close()


def test_a_high_watermark_does_not_speak_for_what_came_in_place_of_what_was_cut(tmp_path: Path) -> None:
    """An unclean leader had it cut below the high watermark; the broker goes before the next checkpoint."""
    for how, (anew, epochs) in enumerate(
        [(False, (2, 2)), (True, (2, 2)), (False, (0, 2)), (True, (0, 0)), (False, (0, 0))]
    ):
        rig = LogRig(tmp_path / str(how))
        for _ in range(3):
            rig.append(1, epoch=1)
        rig.log.flush()
        rig.directory.checkpoint_high_watermarks({KEY: 3})
        if anew:
            rig.log.truncate_and_start_at(0)
        else:
            rig.log.truncate_to(0)
        for offset, epoch in enumerate((epochs[0], *epochs)):
            rig.log.append_as_follower(as_sent_by_leader(make_batch(1, b"other"), offset, epoch))
        assert rig.crash().high_watermark_checkpoint == 0
        rig.directory.checkpoint_high_watermarks({})
        assert rig.crash().high_watermark_checkpoint == 0
        rig.log.flush()
        assert rig.cut_power(how).high_watermark_checkpoint == 0
        rig.close()


def test_a_high_watermark_that_was_read_before_a_cut_does_not_speak_for_what_came_before_it_was_written(
    tmp_path: Path,
) -> None:
    rig = LogRig(tmp_path)
    for _ in range(3):
        rig.append(1, epoch=1)
    rig.log.truncate_to(1)
    for offset in (1, 2):
        rig.log.append_as_follower(as_sent_by_leader(make_batch(1, b"other"), offset, 2))
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({KEY: 3}, {KEY: 1})
    assert rig.crash().high_watermark_checkpoint == 1
    rig.close()


def test_a_high_watermark_is_found_again_in_a_log_that_has_grown_by_newer_epochs(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    for _ in range(3):
        rig.append(1, epoch=1)
    rig.directory.checkpoint_high_watermarks({KEY: 2})
    rig.append(1, epoch=2)
    rig.log.assign_epoch(3, 4)
    assert rig.crash().high_watermark_checkpoint == 2
    rig.log.truncate_to(3)
    assert rig.crash().high_watermark_checkpoint == 2
    rig.close()
