"""What a log is after a crash, and after damage to its files."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from faulty_files import FaultyFiles, SimulatedCrash
from hightide_broker.storage import DataDirectory, LogSettings, StorageFailed, TimestampFound
from log_rig import KEY, LogRig, offsets, read_all
from stored_batches import as_sent_by_leader, headers_of, make_batch

SIZE = len(make_batch(1))
SETTINGS = LogSettings(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """A log of ten batches of one record, four to a segment; epochs 1 and, from offset 6 on, 2."""
    rig = LogRig(tmp_path, SETTINGS)
    rig.fill(6, epoch=1)
    rig.fill(4, epoch=2)
    yield rig
    rig.close(clean=False)


def kept_aside(rig: LogRig) -> list[str]:
    return sorted(path.name for path in rig.path.glob("quarantine/*/*"))


def test_a_clean_stop_needs_no_recovery(rig: LogRig) -> None:
    rig.close()
    rig.files.changes = 0
    rig.open()
    assert rig.directory.was_closed_cleanly
    assert (rig.log.log_end_offset, rig.log.durable_end_offset) == (10, 10)
    assert len(rig.directory._volume.open_files) == 0
    assert rig.log.epochs.entries == ((1, 0), (2, 6))
    assert offsets(rig.log) == list(range(10))


def test_a_crash_of_the_process_loses_nothing(rig: LogRig) -> None:
    rig.crash()
    assert not rig.directory.was_closed_cleanly
    assert offsets(rig.log) == list(range(10))
    assert rig.log.epochs.entries == ((1, 0), (2, 6))
    assert rig.log.durable_end_offset == 10


@pytest.mark.parametrize("cut", [1, 79, 80, SIZE - 1])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(rig: LogRig, cut: int) -> None:
    rig.close(clean=False)
    last = rig.segments()[-1]
    last.write_bytes(last.read_bytes()[: SIZE + cut])
    rig.open()
    assert offsets(rig.log) == list(range(9))
    assert last.stat().st_size == SIZE
    assert kept_aside(rig) == []


def test_zeros_that_a_power_cut_left_are_cut(rig: LogRig) -> None:
    rig.close(clean=False)
    last = rig.segments()[-1]
    last.write_bytes(last.read_bytes() + b"\0" * 5_000)
    assert offsets(rig.open()) == list(range(10))
    assert kept_aside(rig) == []


def test_a_bad_crc_at_the_end_is_cut_and_kept_aside(rig: LogRig) -> None:
    rig.close(clean=False)
    flip(rig.segments()[-1], 2 * SIZE - 10)
    assert offsets(rig.open()) == list(range(9))
    assert kept_aside(rig) == [f"{9:020d}.cut"]


def test_a_changed_length_in_front_of_whole_batches_is_no_torn_write(rig: LogRig) -> None:
    """It reads like the end of a file within a batch. What follows may be the last copy."""
    rig.close(clean=False)
    middle = rig.segments()[1]
    before = middle.read_bytes()
    flip(middle, SIZE + 9)
    changed = middle.read_bytes()
    assert offsets(rig.open()) == list(range(5))
    (cut,) = rig.path.glob(f"quarantine/*/{5:020d}.cut")
    assert cut.read_bytes() == changed[SIZE:] != before[SIZE:]
    assert kept_aside(rig) == [f"{5:020d}.cut", f"{8:020d}.log"]


def test_a_bad_crc_in_the_middle_ends_the_log_there_and_what_follows_is_kept_aside(rig: LogRig) -> None:
    rig.close(clean=False)
    flip(rig.segments()[1], SIZE + 100)
    rig.open()
    assert offsets(rig.log) == list(range(5))
    assert rig.log.epochs.entries == ((1, 0),)
    assert kept_aside(rig) == [f"{5:020d}.cut", f"{8:020d}.log"]
    rig.fill(5, epoch=3)
    assert offsets(rig.crash()) == list(range(10))


def test_damage_at_the_very_start_leaves_an_empty_log(rig: LogRig) -> None:
    rig.close(clean=False)
    flip(rig.segments()[0], 30)
    rig.open()
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (0, 0)
    assert len(kept_aside(rig)) == 3
    rig.fill(1, epoch=3)
    assert offsets(rig.crash()) == [0]


def test_a_missing_segment_ends_the_log_in_front_of_the_gap(rig: LogRig) -> None:
    rig.close(clean=False)
    rig.segments()[1].unlink()
    assert offsets(rig.open()) == list(range(4))
    assert kept_aside(rig) == [f"{8:020d}.log"]


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(as_sent_by_leader(make_batch(1, partition=9), 10, 2), id="another partition's"),
        pytest.param(as_sent_by_leader(make_batch(1), 12, 2), id="a gap"),
        pytest.param(as_sent_by_leader(make_batch(1), 10, 1), id="an older epoch"),
    ],
)
def test_a_batch_that_cannot_be_here_is_cut(rig: LogRig, foreign: bytes) -> None:
    rig.close(clean=False)
    last = rig.segments()[-1]
    last.write_bytes(last.read_bytes() + foreign)
    assert offsets(rig.open()) == list(range(10))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.unlink(), id="missing"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-3]), id="short"),
        pytest.param(lambda path: flip(path, path.stat().st_size - 1), id="bit flip"),
        pytest.param(lambda path: path.write_bytes(b"\xff" * 100), id="garbage"),
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_rebuilt(
    rig: LogRig, suffix: str, damage: Callable[[Path], None], clean: bool
) -> None:
    rig.log.roll()
    rig.close(clean)
    for path in rig.log_directory.glob(f"*{suffix}"):
        damage(path)
    rig.open()
    assert offsets(rig.log) == list(range(10))
    for offset in range(10):
        assert rig.log.read(offset, SIZE, 10)
    found = rig.log.find_timestamp(0, 10)
    assert found is not None
    assert found.offset == 0


@pytest.mark.parametrize("is_crash", [True, False])
def test_of_indexes_that_were_rebuilt_no_more_stay_in_memory_than_of_others(
    tmp_path: Path, is_crash: bool
) -> None:
    rig = LogRig(tmp_path, LogSettings(segment_bytes=SIZE))
    rig.fill(100)
    rig.close(clean=not is_crash)
    for path in rig.log_directory.glob("*.index"):
        path.unlink()
    rig.open()
    assert offsets(rig.log) == list(range(100))
    assert sum(each._offset_index is not None for each in rig.log._row.segments) <= 65
    rig.close()


def test_an_index_of_another_segment_is_found_out_and_rebuilt(rig: LogRig) -> None:
    rig.close()
    for path in rig.log_directory.glob("*.index"):
        other = rig.log_directory / f"{0:020d}.index"
        path.write_bytes(other.read_bytes())
    rig.open()
    assert [b"".join(rig.log.read(offset, 0, 10))[:8] for offset in range(10)] == [
        offset.to_bytes(8, "little") for offset in range(10)
    ]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("contents", [None, b"", b"garbage and more", b"HTLE\x01\0\0\0" + b"\xff" * 32])
def test_missing_or_damaged_epochs_are_rebuilt_from_the_batches(
    rig: LogRig, clean: bool, contents: bytes | None
) -> None:
    rig.close(clean)
    path = rig.log_directory / "leader_epochs"
    if contents is None:
        path.unlink()
    else:
        path.write_bytes(contents)
    rig.open()
    assert rig.log.epochs.entries == ((1, 0), (2, 6))


def test_an_epoch_that_starts_behind_the_recovered_end_is_forgotten(rig: LogRig) -> None:
    rig.log.assign_epoch(5, 10)
    rig.write_epochs()
    rig.close(clean=False)
    last = rig.segments()[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert rig.open().epochs.entries == ((1, 0), (2, 6))


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_checkpoint_means_recovery_from_the_start(rig: LogRig, damage: bytes | None) -> None:
    rig.close()
    path = rig.path / "checkpoints"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    flip(rig.segments()[0], SIZE + 100)
    rig.open()
    assert not rig.directory.was_closed_cleanly
    assert offsets(rig.log) == [0]


def test_recovery_reads_only_from_the_recovery_point_on(rig: LogRig) -> None:
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({KEY: 9})
    rig.close(clean=False)
    flip(rig.segments()[0], 100)
    rig.open()
    assert rig.log.log_end_offset == 10
    assert rig.log.high_watermark_checkpoint == 9


def test_a_high_watermark_above_the_recovered_end_is_lowered_and_says_that_records_are_missing(
    rig: LogRig,
) -> None:
    rig.directory.checkpoint_high_watermarks({KEY: 10})
    rig.close(clean=False)
    last = rig.segments()[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert rig.open().high_watermark_checkpoint == 9
    assert rig.log.lost_data


def test_a_clean_mark_of_other_checkpoints_is_not_believed(rig: LogRig) -> None:
    rig.close()
    old = (rig.path / "checkpoints").read_bytes()
    rig.open()
    rig.fill(3, epoch=2)
    rig.close()
    (rig.path / "checkpoints").write_bytes(old)
    rig.open()
    assert not rig.directory.was_closed_cleanly
    assert rig.log.log_end_offset == 13


def test_a_log_that_grew_after_its_clean_mark_is_recovered(rig: LogRig) -> None:
    rig.close()
    last = rig.segments()[-1]
    last.write_bytes(last.read_bytes() + as_sent_by_leader(make_batch(1), 10, 2))
    assert rig.open().log_end_offset == 11


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_what_replaces_a_tail_below_the_recovery_point_is_not_trusted_unread(
    rig: LogRig, seed: int, is_killed: bool
) -> None:
    # Goal: recovery must not take over a segment whose bytes a power cut may have taken.
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({KEY: 5})
    rig.log.truncate_to(5)
    if is_killed:  # The next process believes the mark, and not the checkpoint, which counts after the cut.
        rig.directory.close(clean=False)
        rig.open_directory()
        rig.log = rig.directory.log(*KEY, True, "flights", rig.settings)
    rig.fill(8, b"another value", epoch=3)
    rig.cut_power(seed)
    assert offsets(rig.log) == list(range(rig.log.log_end_offset))
    assert rig.log.log_end_offset >= 5
    starts = [entry.start_offset for entry in rig.log.epochs.entries]
    headers = read_all(rig.log)
    changes = [
        header.base_offset
        for before, header in pairwise([None, *headers])
        if header is not None and (before is None or header.leader_epoch > before.leader_epoch)
    ]
    assert starts == changes


@pytest.mark.parametrize("seed", range(20))
def test_a_tail_that_is_cut_while_its_checkpoint_is_written_is_not_trusted_unread(
    rig: LogRig, seed: int
) -> None:
    # The checkpoint is written on the disk's thread, the cut is made on the loop's.
    rig.log.flush()
    replace = rig.files.replace

    def cut_first(source: str, target: str) -> None:
        rig.files.replace = replace  # type: ignore[method-assign]
        rig.log.truncate_to(5)
        rig.fill(2, b"another value", epoch=3)
        replace(source, target)

    rig.files.replace = cut_first  # type: ignore[method-assign]
    rig.directory.checkpoint_high_watermarks({KEY: 5})
    rig.cut_power(seed)
    assert offsets(rig.log) == list(range(rig.log.log_end_offset))
    assert rig.log.log_end_offset >= 5


@pytest.mark.parametrize("seed", range(10))
def test_epochs_of_durable_batches_outlive_a_power_cut(rig: LogRig, seed: int) -> None:
    rig.fill(2, epoch=4)
    rig.log.roll()
    rig.fill(1, epoch=5)
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({})
    rig.cut_power(seed)
    assert rig.log.epochs.entries == ((1, 0), (2, 6), (4, 10), (5, 12))


@pytest.mark.parametrize("seed", range(5))
def test_a_segment_that_was_cut_off_does_not_come_back_once_the_cut_is_flushed(
    rig: LogRig, seed: int
) -> None:
    rig.log.flush()
    assert rig.log.truncate_to(8) == 8
    # No byte is to be synced, only the name that has gone: what it held would follow on the log's end.
    assert rig.log.flush() == 8
    assert offsets(rig.cut_power(seed)) == list(range(8))


@pytest.mark.parametrize("seed", range(10))
def test_after_a_clean_stop_and_a_power_cut_records_are_found_by_their_time(
    tmp_path: Path, seed: int
) -> None:
    """The time index of the stop before was there again, which knew of no record since."""
    rig = LogRig(tmp_path)
    for timestamp_us in (100, 200):
        rig.restart()
        batch = make_batch(1, timestamps_us=(timestamp_us,))
        rig.log.append_as_leader(batch, headers_of(batch), 1)
    rig.log.move_start(1)
    rig.log.persist_start()  # It syncs the names of all files of the log.
    rig.close()
    rig.files.cut_power(Random(seed))
    assert rig.open().find_timestamp(150, 2) == TimestampFound(1, 200)
    rig.close()


def go_on(rig: LogRig) -> None:
    """Nothing happens meanwhile."""


BETWEEN_CUT_AND_APPEND: dict[str, Callable[[LogRig], object]] = {
    "at once": go_on,
    "after a kill": LogRig.crash,
    "after a restart": LogRig.restart,
    "after a kill and a restart": lambda rig: (rig.crash(), rig.restart()),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("when", BETWEEN_CUT_AND_APPEND)
def test_what_was_cut_off_does_not_come_back_into_a_segment_that_was_closed_since(
    rig: LogRig, when: str, seed: int
) -> None:
    """Batches that do not fit behind the cut go into another segment: only that one was synced."""
    rig.log.flush()
    assert rig.log.truncate_to(7) == 7
    rig.directory.checkpoint_high_watermarks({KEY: 7})
    BETWEEN_CUT_AND_APPEND[when](rig)
    rig.append(1, b"too much for the segment" * 20, epoch=3)
    assert rig.names(".log")[-1] == "7"
    assert rig.log.flush() == 8
    assert offsets(rig.cut_power(seed)) == list(range(8))


@pytest.mark.parametrize("seed", range(5))
def test_nor_into_one_in_front_of_what_recovery_reads(rig: LogRig, seed: int) -> None:
    rig.log.flush()
    assert rig.log.truncate_to(7) == 7
    rig.directory.checkpoint_high_watermarks({KEY: 7})
    rig.append(1, b"too much for the segment" * 20, epoch=3)
    rig.crash()
    assert rig.log.durable_end_offset == 8
    assert offsets(rig.cut_power(seed)) == list(range(8))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kept", [0, 3, 8])
def test_no_power_cut_brings_back_what_a_durable_truncation_took(rig: LogRig, kept: int, seed: int) -> None:
    rig.log.flush()
    end_offset = rig.log.truncate_to(kept, durable=True)
    assert offsets(rig.cut_power(seed)) == list(range(end_offset))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("start", [0, 3, 20])
def test_nor_what_was_there_before_the_log_began_anew(rig: LogRig, start: int, seed: int) -> None:
    rig.log.flush()
    rig.log.truncate_and_start_at(start)
    rig.settles = False
    rig.cut_power(seed)
    assert rig.log.log_end_offset == start
    assert rig.log.log_start_offset == start or rig.log.lost_data


@pytest.mark.parametrize("seed", range(5))
def test_what_recovery_calls_durable_outlives_a_power_cut(rig: LogRig, seed: int) -> None:
    # The process that wrote it was killed, and had synced nothing.
    killed = rig.files
    rig.close(clean=False)
    rig.files = FaultyFiles()
    rig.files.go_on_from(killed)
    rig.directory = DataDirectory.open(rig.path, "cluster", 1, rig.shared, files=rig.files)
    rig.log = rig.directory.log(*KEY, True, "flights", rig.settings)
    assert rig.log.durable_end_offset == 10
    assert offsets(rig.cut_power(seed)) == list(range(10))


def test_a_crash_at_any_step_of_a_roll_loses_nothing(tmp_path: Path) -> None:
    for steps in range(40):
        rig = LogRig(tmp_path / str(steps), SETTINGS)
        rig.fill(4)
        rig.files.crash_in = steps
        try:
            rig.append(1)
            crashed = False
        except SimulatedCrash:
            crashed = True
        rig.files.crash_in, rig.files.crashed = None, False
        rig.crash()
        # The last step is that of the mark.
        assert len(offsets(rig.log)) in ((4, 5) if crashed else (5,)), steps
        assert not rig.log.lost_data
        rig.fill(2)
        assert offsets(rig.restart())[:6] == list(range(6))
        rig.close()
        if not crashed:
            return
    pytest.fail("a roll takes fewer steps")


def test_a_crash_at_any_step_of_a_checkpoint_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    for steps in range(20):
        rig = LogRig(tmp_path / str(steps), SETTINGS)
        rig.fill(8)
        rig.log.flush()
        rig.directory.checkpoint_high_watermarks({KEY: 3})
        rig.files.crash_in = steps
        try:
            rig.directory.checkpoint_high_watermarks({KEY: 7})
            crashed = False
        except SimulatedCrash:
            crashed = True
        rig.files.cut_power(Random(steps))
        rig.files.crash_in, rig.files.crashed = None, False
        rig.crash()
        assert rig.log.log_end_offset == 8
        assert rig.log.high_watermark_checkpoint in ((3, 7) if crashed else (7,)), steps
        rig.close()
        if not crashed:
            return
    pytest.fail("a checkpoint takes fewer steps")


def test_a_crash_at_any_step_of_starting_again_leaves_a_log_that_works(tmp_path: Path) -> None:
    for steps in range(60):
        rig = LogRig(tmp_path / str(steps), SETTINGS)
        rig.fill(9)
        rig.files.crash_in = steps
        try:
            rig.log.truncate_and_start_at(100)
            crashed = False
        except SimulatedCrash:
            crashed = True
        rig.files.crash_in, rig.files.crashed = None, False
        rig.crash()
        end_offset = rig.log.log_end_offset
        assert end_offset <= 9 or end_offset == 100
        assert crashed or end_offset == 100
        assert offsets(rig.log) == list(range(rig.log.log_start_offset, end_offset))
        rig.append(1, epoch=2)
        rig.close()
        if not crashed:
            return
    pytest.fail("starting again takes fewer steps")


def test_a_read_error_during_recovery_is_not_taken_for_damage(rig: LogRig) -> None:
    rig.close(clean=False)
    size = rig.segments()[-1].stat().st_size
    rig.settings = LogSettings(segment_bytes=4 * SIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("log_rig.FaultyFiles.read_at", failing_read)
        with pytest.raises(StorageFailed):
            rig.open()
    rig.directory.close(clean=False)
    assert rig.segments()[-1].stat().st_size == size


def failing_read(self: object, fd: int, size: int, position: int) -> bytes:
    raise OSError(errno.EIO, "Input/output error")


def test_sealed_files_beside_the_log_do_not_confuse_recovery(rig: LogRig) -> None:
    rig.close(clean=False)
    (rig.log_directory / f"{4:020d}.index.tmp").write_bytes(b"half")
    (rig.log_directory / f"{77:020d}.index").write_bytes(b"orphan")
    (rig.log_directory / "notes.txt").write_bytes(b"an operator's")
    rig.open()
    assert offsets(rig.log) == list(range(10))
    assert rig.names(".tmp") == []
    assert "77" not in rig.names(".index")
    assert (rig.log_directory / "notes.txt").exists()


class FilesLookedFor(FaultyFiles):
    """Files of which it is noted what is listed and looked for."""

    def __init__(self, before: FaultyFiles) -> None:
        super().__init__(before)
        self.listed: list[str] = []
        self.looked_for: list[str] = []

    def names(self, path: str) -> list[str]:
        self.listed.append(path)
        return super().names(path)

    def exists(self, path: str) -> bool:
        self.looked_for.append(path)
        return super().exists(path)


def test_a_recovery_lists_a_directory_once_and_looks_for_no_index_that_is_not_in_it(rig: LogRig) -> None:
    """A broker that was killed recovers all of its logs before it registers; each call takes 10 us."""
    rig.close(clean=False)
    files = FilesLookedFor(rig.files)
    rig.directory = DataDirectory.open(rig.path, "cluster", 1, files=files)
    rig.log = rig.directory.log(*KEY, False, "flights", SETTINGS)
    assert files.listed == [str(rig.log_directory)] * 2, "the second: which snapshots of producers there are"
    assert not [path for path in files.looked_for if path.endswith("index")]


def test_an_index_from_before_the_last_appends_does_not_outlive_a_recovery(rig: LogRig) -> None:
    rig.restart()
    assert "8" in rig.names(".index")
    rig.fill(1, epoch=2)
    rig.crash()
    assert "8" not in rig.names(".index")


def test_a_link_in_place_of_a_segment_is_not_followed(rig: LogRig, tmp_path: Path) -> None:
    rig.close(clean=False)
    last = rig.segments()[-1]
    elsewhere = tmp_path / "elsewhere"
    last.rename(elsewhere)
    last.symlink_to(elsewhere)
    with pytest.raises(StorageFailed):
        rig.open()
    rig.directory.close(clean=False)
    assert elsewhere.stat().st_size == 2 * SIZE


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(bytes(data))
