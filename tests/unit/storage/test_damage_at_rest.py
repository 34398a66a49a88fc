"""What a disk changes or loses without saying so: it is noticed when it is read, and concerns one log."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from damages import DAMAGES
from faulty_files import Fault
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage import (
    DamagedLog,
    DirectorySettings,
    LogClosed,
    LogSettings,
    StorageFailed,
    TimestampFound,
)
from log_rig import LogRig, offsets
from stored_batches import PARTITION, TOPIC_ID, make_batch

SIZE = len(make_batch(1))
END = 14


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """A log of fourteen batches in segments of four, none of them in memory, and no file open."""
    rig = LogRig(tmp_path, LogSettings(segment_bytes=4 * SIZE), DirectorySettings(open_files_max=1))
    rig.fill(END)
    rig.restart()
    yield rig
    rig.close(clean=False)


def segment(rig: LogRig, base: int) -> Path:
    return rig.log_directory / f"{base:020d}.log"


def read(rig: LogRig, offset: int) -> list[bytes]:
    """What a reader gets from there on, as far as one read goes."""
    return [bytes(each) for each in rig.log.read_file(offset, 1 << 20, END)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told_by_where_it_is_and_never_handed_out(rig: LogRig, damage: str) -> None:
    before = b"".join(read(rig, 4))
    read(rig, 0)  # One file stays open, and it is another one now.
    DAMAGES[damage](segment(rig, 4))
    told: list[DamagedLog] = []
    rig.directory.tell_of_damage(told.append)
    with pytest.raises(DamagedLog, match=r"flights-3 is damaged at offset 5: ") as caught:
        read(rig, 5)
    assert caught.value.code == ErrorCode.ERROR_CODE_STORAGE_FAILED
    assert (caught.value.topic_id, caught.value.partition) == (TOPIC_ID, PARTITION)
    assert (caught.value.segment, caught.value.offset) == (4, 5)
    assert told == [caught.value]
    if damage != "a deleted file":
        assert b"".join(read(rig, 4)) == before[:SIZE]
    assert len(b"".join(read(rig, 0))) == 4 * SIZE
    assert len(b"".join(read(rig, 8))) == 4 * SIZE
    assert not rig.directory.failed


def test_a_segment_that_is_gone_costs_neither_the_directory_nor_appends(rig: LogRig) -> None:
    segment(rig, 4).unlink()
    with pytest.raises(DamagedLog):
        read(rig, 4)
    assert rig.append(1) == END + 1
    assert rig.log.flush() == END + 1
    assert not rig.directory.failed


def test_a_look_up_by_time_that_meets_damage_says_so(rig: LogRig) -> None:
    for suffix in (".timeindex", ".index"):
        segment(rig, 0).with_suffix(suffix).unlink()
    DAMAGES["a flipped magic"](segment(rig, 0))
    with pytest.raises(DamagedLog):
        rig.log.find_timestamp(10**9, END)


def test_a_look_up_by_time_takes_nothing_from_a_batch_that_is_damaged(rig: LogRig) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    rig.log.move_start(5)
    with pytest.raises(DamagedLog):
        rig.log.find_timestamp(0, END)


def test_an_active_segment_that_is_gone_takes_no_append_and_counts_as_not_durable(rig: LogRig) -> None:
    rig.append(1)
    read(rig, 0)
    segment(rig, 12).unlink()
    with pytest.raises(DamagedLog):
        rig.append(1)
    with pytest.raises(DamagedLog):
        rig.log.flush()
    assert rig.log.durable_end_offset == END
    assert not rig.directory.failed


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_append_goes_on_where_an_index_of_the_active_segment_is_gone(rig: LogRig, suffix: str) -> None:
    segment(rig, 12).with_suffix(suffix).unlink()
    assert rig.append(1) == END + 1
    assert offsets(rig.log) == list(range(END + 1))


def test_a_data_directory_that_is_gone_with_all_its_files_has_failed(rig: LogRig) -> None:
    shutil.move(rig.path, rig.path.with_name("taken-away"))
    with pytest.raises(StorageFailed, match="offline"):
        read(rig, 4)
    assert rig.directory.failed
    shutil.move(rig.path.with_name("taken-away"), rig.path)


def test_an_io_error_is_the_disks_and_no_damage(rig: LogRig) -> None:
    rig.files.faults.append(Fault("read_at", errno.EIO, ".log"))
    with pytest.raises(StorageFailed):
        read(rig, 4)
    assert rig.directory.failed


def test_a_file_that_went_into_quarantine_under_a_reader_is_no_damage(rig: LogRig) -> None:
    told: list[DamagedLog] = []
    rig.directory.tell_of_damage(told.append)
    opened = rig.log
    rig.directory.quarantine(TOPIC_ID, PARTITION, 7)
    with pytest.raises(LogClosed):
        opened.read_file(4, 1, END)
    assert told == []


def test_what_a_cut_leaves_of_a_damaged_segment_is_found_by_its_time(rig: LogRig) -> None:
    """Its time index knew of no record any more, and each look-up went past all of them."""
    DAMAGES["a flipped magic"](segment(rig, 4))
    assert rig.log.truncate_to(5) == 5
    rig.log.move_start(4)
    assert rig.log.find_timestamp(1_000, 5) == TimestampFound(4, 1_000)


@pytest.mark.parametrize("base", [4, 8, 12])
def test_a_cut_removes_a_segment_that_is_gone_already(rig: LogRig, base: int) -> None:
    """Half a cut would leave a log that says that it ends where it has no file any more."""
    segment(rig, base).unlink()
    assert rig.log.truncate_to(3) == 3
    rig.fill(2)
    assert offsets(rig.log) == [0, 1, 2, 3, 4]
    assert not rig.crash().lost_data


@pytest.mark.parametrize("base", [0, 4, 12])
def test_a_log_begins_anew_though_a_segment_is_gone_already(rig: LogRig, base: int) -> None:
    segment(rig, base).unlink()
    rig.log.truncate_and_start_at(40)
    rig.fill(2)
    assert offsets(rig.log) == [40, 41]
    assert not rig.crash().lost_data
