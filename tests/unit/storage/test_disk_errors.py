"""A disk that is full, and one that fails."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_files import Fault
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage import DamagedLog, DiskFull, LogSettings, StorageFailed
from hightide_broker.storage.files.disk_health import DiskHealth
from hightide_broker.storage.files.files import OsFiles
from log_rig import LogRig, offsets
from stored_batches import PARTITION, TOPIC_ID, as_sent_by_leader, make_batch

SIZE = len(make_batch(1))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """A log of three batches."""
    rig = LogRig(tmp_path, LogSettings(segment_bytes=4 * SIZE))
    rig.fill(3)
    yield rig
    rig.close(clean=False)


@pytest.mark.parametrize("partial_bytes", [0, 1, SIZE // 2])
def test_a_full_disk_refuses_the_append_and_leaves_whole_batches(rig: LogRig, partial_bytes: int) -> None:
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, ".log", partial_bytes=partial_bytes))
    with pytest.raises(DiskFull, match="add space") as caught:
        rig.append(1)
    assert caught.value.code == ErrorCode.ERROR_CODE_DISK_FULL
    assert rig.log.log_end_offset == 3
    assert rig.segments()[-1].stat().st_size == 3 * SIZE
    assert offsets(rig.log) == [0, 1, 2]


def test_when_there_is_room_again_appends_go_on(rig: LogRig) -> None:
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, ".log"))
    with pytest.raises(DiskFull):
        rig.append()
    assert rig.append(1) == 4
    assert offsets(rig.crash()) == [0, 1, 2, 3]


@pytest.mark.parametrize("where", [".index", ".timeindex", ".producers"])
def test_a_disk_that_is_full_at_a_roll_leaves_the_segment_active(rig: LogRig, where: str) -> None:
    rig.fill(1)
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, where))
    with pytest.raises(DiskFull):
        rig.append(1)
    assert rig.fill(2) == 6
    assert rig.names(".log") == ["0", "4"]
    assert offsets(rig.crash()) == list(range(6))


def test_an_append_that_found_no_room_leaves_no_epoch_behind(rig: LogRig) -> None:
    """A follower got records of two epochs at once. Then it gets those of the older one: a log that knew the
    newer would take none of them."""
    rig.log.assign_epoch(3, 3)
    older = [as_sent_by_leader(make_batch(1), at, 4) for at in (3, 4)]
    newer = as_sent_by_leader(make_batch(1), 5, 6)
    before = rig.log.epochs.entries
    for where in (".log", "leader_epochs"):
        rig.files.faults.append(Fault("write_at", errno.ENOSPC, where, partial_bytes=16))
        with pytest.raises(DiskFull):
            rig.log.append_as_follower(b"".join((*older, newer)))
        assert rig.log.epochs.entries == before
    rig.crash()
    rig.log.append_as_follower(older[0])
    rig.log.append_as_follower(older[1] + newer)
    assert list(rig.crash().epochs.entries) == [(1, 0), (4, 3), (6, 5)]


def test_an_epoch_that_found_no_room_is_cut_from_the_file_before_an_older_record_takes_its_place(
    rig: LogRig,
) -> None:
    """After a clean stop the file counts. It said that the record is of the newer epoch, and so that it is
    damaged."""
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, ".log"))
    with pytest.raises(DiskFull):
        rig.log.append_as_follower(as_sent_by_leader(make_batch(1), 3, 6))
    rig.log.append_as_follower(as_sent_by_leader(make_batch(1), 3, 1))
    assert list(rig.restart().epochs.entries) == [(1, 0)]
    assert offsets(rig.log) == list(range(4))


def test_a_disk_that_is_full_for_the_epoch_appends_nothing_under_it(rig: LogRig) -> None:
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, "leader_epochs"))
    with pytest.raises(DiskFull):
        rig.append(1, epoch=4)
    assert rig.log.epochs.latest == 1
    rig.append(1, epoch=4)
    assert rig.crash().epochs.entries == ((1, 0), (4, 3))


@pytest.mark.parametrize("what", ["sync", "sync_directory"])
def test_a_sync_that_finds_no_room_has_failed_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The kernel may have dropped what it was to write, and the next sync says that all is well."""

    def finds_no_room(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", finds_no_room)
    monkeypatch.setattr(os, "fsync", finds_no_room)
    disk, files = DiskHealth(str(tmp_path)), OsFiles()
    fd = files.open(f"{tmp_path}/file", create=True)
    with pytest.raises(StorageFailed, match="a sync failed: No space left"), disk:
        files.sync(fd) if what == "sync" else files.sync_directory(str(tmp_path))
    files.close(fd)
    assert disk.failed


def test_after_an_io_error_no_file_of_the_directory_is_touched_again(rig: LogRig) -> None:
    rig.files.faults.append(Fault("write_at", errno.EIO, ".log"))
    with pytest.raises(StorageFailed) as caught:
        rig.append()
    assert caught.value.code == ErrorCode.ERROR_CODE_STORAGE_FAILED
    assert rig.directory.failed
    before = rig.files.calls
    for use in (
        rig.append,
        rig.log.flush,
        rig.log.roll,
        lambda: rig.log.truncate_to(0),
        lambda: rig.log.read(0, 1, 3),
        lambda: rig.log.find_timestamp(0, 3),
        lambda: rig.directory.log(TOPIC_ID, PARTITION, True, "flights", rig.settings),
        lambda: rig.directory.log(bytes(16), 0, True, "others", rig.settings),
        lambda: rig.directory.quarantine(TOPIC_ID, PARTITION, 7),
        lambda: rig.directory.checkpoint_high_watermarks({}),
        lambda: rig.directory.delete_expired_quarantine(7),
        lambda: rig.directory.read_note("note"),
    ):
        with pytest.raises(StorageFailed, match=r"offline since .*Input/output error"):
            use()
    assert rig.files.calls == before


def test_whoever_asked_is_told_of_the_first_failure_once(rig: LogRig) -> None:
    told: list[str | None] = []
    rig.directory.tell_of_failure(lambda: told.append(rig.directory.failure))
    rig.files.faults.append(Fault("sync", errno.EIO, ".log", lasting=True))
    for _ in range(2):
        with pytest.raises(StorageFailed):
            rig.log.flush()
    assert len(told) == 1
    rig.directory.tell_of_failure(lambda: told.append("late"))
    assert told[1:] == ["late"]


def test_a_failed_fsync_is_final_even_if_the_next_would_succeed(rig: LogRig) -> None:
    rig.files.faults.append(Fault("sync", errno.EIO, ".log"))
    with pytest.raises(StorageFailed):
        rig.log.flush()
    assert rig.log.durable_end_offset == 0
    with pytest.raises(StorageFailed):
        rig.log.flush()
    with pytest.raises(StorageFailed):
        rig.append()


def test_a_full_disk_at_fsync_is_final_too(rig: LogRig) -> None:
    rig.files.faults.append(Fault("sync", errno.ENOSPC, ".log"))
    with pytest.raises(StorageFailed):
        rig.log.flush()


def test_after_a_failed_disk_the_shutdown_is_not_clean(rig: LogRig) -> None:
    rig.files.faults.append(Fault("sync", errno.EIO, ".log"))
    rig.close(clean=True)
    rig.open()
    assert not rig.directory.was_closed_cleanly
    assert offsets(rig.log) == [0, 1, 2]


def test_too_many_open_files_is_an_error_that_passes(rig: LogRig) -> None:
    rig.directory._volume.open_files.close()
    rig.files.faults.append(Fault("open", errno.EMFILE, ".log"))
    with pytest.raises(StorageFailed, match="ulimit"):
        rig.append()
    assert not rig.directory.failed
    assert rig.append(1) == 4


def test_flush_makes_everything_durable_once(rig: LogRig) -> None:
    assert rig.log.durable_end_offset == 0
    assert rig.log.flush() == rig.log.durable_end_offset == 3
    before = rig.files.syncs
    assert rig.log.flush() == 3
    assert rig.files.syncs == before
    rig.fill(6)
    assert rig.log.flush() == 9
    assert rig.files.syncs == before + 3


def test_what_a_flush_did_not_get_to_is_synced_by_the_next_one(tmp_path: Path) -> None:
    """It meets that a file is gone, and that is mended. The name of the log's directory is not on disk."""
    for seed in range(10):
        rig = LogRig(tmp_path / str(seed))
        rig.fill(3)
        (rig.log_directory / "leader_epochs").unlink()
        with pytest.raises(DamagedLog):
            rig.log.flush()
        rig.log.at_rest.restore_epochs()
        assert rig.log.flush() == 3
        assert rig.cut_power(seed).log_end_offset == 3
        rig.close(clean=False)


def test_appends_go_on_while_a_flush_waits_for_the_disk(rig: LogRig) -> None:
    started, may_end = threading.Event(), threading.Event()
    real_sync = rig.files.sync

    def slow_sync(fd: int) -> None:
        started.set()
        assert may_end.wait(60)
        real_sync(fd)

    rig.files.sync = slow_sync  # type: ignore[method-assign]
    flushing = threading.Thread(target=rig.log.flush)
    flushing.start()
    assert started.wait(60)
    assert rig.append(1) == 4
    assert rig.log.durable_end_offset == 0
    may_end.set()
    flushing.join(60)
    # The flush speaks for what was there when it began.
    assert rig.log.durable_end_offset == 3
    assert rig.log.flush() == 4


@pytest.mark.parametrize("replaced_by", [1, 2, 3])
def test_a_flush_does_not_speak_for_what_replaced_a_cut_tail(rig: LogRig, replaced_by: int) -> None:
    real_sync = rig.files.sync

    def sync_late(fd: int) -> None:
        rig.files.sync = real_sync  # type: ignore[method-assign]
        real_sync(fd)
        rig.log.truncate_to(1)
        rig.fill(replaced_by, epoch=2)

    rig.files.sync = sync_late  # type: ignore[method-assign]
    # What was synced ended at 3, as the log may end again now; of what is there only the first record was.
    assert rig.log.flush() <= 1
    assert rig.log.durable_end_offset <= 1
    before = rig.files.syncs
    assert rig.log.flush() == 1 + replaced_by
    assert rig.files.syncs > before


def test_a_full_disk_refuses_to_lead_until_it_has_room(rig: LogRig) -> None:
    """An election writes nothing, and who is preferred would be elected again and again, without a record."""
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, ".log"))
    with pytest.raises(DiskFull):
        rig.append(1)
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, "leader_epochs"))
    with pytest.raises(DiskFull):
        rig.log.assign_epoch(4, 3)
    assert rig.log.epochs.latest == 1
    rig.log.assign_epoch(5, 3)
    assert rig.crash().epochs.latest == 5
