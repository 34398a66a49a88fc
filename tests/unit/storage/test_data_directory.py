"""Whose a data directory is, what is in it, and what it costs."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from faulty_files import Fault, FaultyFiles
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage import (
    CorruptFile,
    DataDirectory,
    DirectoryLocked,
    DirectorySettings,
    DiskFull,
    LogClosed,
    LogSettings,
    StorageFailed,
    UnknownLog,
    WrongBroker,
    WrongCluster,
    cluster_id_on_disk,
)
from hightide_broker.storage.files.files import OsFiles
from hightide_broker.storage.inspection.inspection import InspectedBatch, InspectedDamage, inspect
from log_rig import KEY, LogRig, offsets
from stored_batches import PARTITION, TOPIC_ID, headers_of, make_batch

DAY_US = 24 * 3600 * 1_000_000


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_another_clusters_directory_is_refused_with_both_ids_and_what_to_do(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path, "mine", 1).close()
    with pytest.raises(WrongCluster, match=r"cluster mine.*cluster yours.*--zookeeper") as caught:
        DataDirectory.open(tmp_path, "yours", 1)
    assert caught.value.code == ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID
    with pytest.raises(WrongBroker, match=r"broker 1.*broker 2"):
        DataDirectory.open(tmp_path, "mine", 2)
    DataDirectory.open(tmp_path, "mine", 1).close()


@pytest.mark.parametrize(
    "meta", [b"", b"[]", b"{}", b'{"version": 2, "cluster_id": "c", "broker_id": 1}', b"\xff"]
)
def test_a_damaged_identity_is_not_guessed(tmp_path: Path, meta: bytes) -> None:
    (tmp_path / "meta.json").write_bytes(meta)
    with pytest.raises(CorruptFile, match=r"meta\.json"):
        DataDirectory.open(tmp_path, "c", 1)


def test_directories_tell_whose_they_are_before_any_is_opened(tmp_path: Path) -> None:
    """A broker that has data of a cluster founds no other one."""
    new, ours, mixed_up, damaged = (tmp_path / name for name in ("new", "ours", "mixed-up", "damaged"))
    DataDirectory.open(ours, "ours", 1).close()
    DataDirectory.open(mixed_up, "theirs", 1).close()
    assert cluster_id_on_disk(str(new), OsFiles()) is None
    assert not new.exists()
    assert cluster_id_on_disk(str(ours), OsFiles()) == "ours"
    assert cluster_id_on_disk(str(mixed_up), OsFiles()) == "theirs"
    damaged.mkdir()
    (damaged / "meta.json").write_bytes(b"{}")
    with pytest.raises(CorruptFile, match="damaged"):
        cluster_id_on_disk(str(damaged), OsFiles())


def test_one_that_cannot_be_read_is_left_to_its_opening(tmp_path: Path) -> None:
    files = FaultyFiles()
    DataDirectory.open(tmp_path, "ours", 1).close()
    files.faults.append(Fault("read_at", errno.EIO))
    assert cluster_id_on_disk(str(tmp_path), files) is None


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, "c", 1)
    program = (
        "import sys; from pathlib import Path; from hightide_broker.storage import *\n"
        "try: DataDirectory.open(Path(sys.argv[1]), 'c', 1)\n"
        "except DirectoryLocked as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert f"in use by process {os.getpid()}" in result.stdout
    with pytest.raises(DirectoryLocked):
        DataDirectory.open(tmp_path, "c", 1)
    directory.close()
    DataDirectory.open(tmp_path, "c", 1).close()


def test_each_life_has_another_boot_id(tmp_path: Path) -> None:
    ids = set()
    for _ in range(3):
        directory = DataDirectory.open(tmp_path, "c", 1)
        ids.add(directory.boot_id)
        assert json.loads((tmp_path / "meta.json").read_text())["boot_id"] == directory.boot_id
        directory.close()
    assert len(ids) == 3


def test_a_new_directory_counts_as_closed_cleanly_and_a_killed_one_does_not(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    was_clean = [rig.directory.was_closed_cleanly]
    rig.append()
    for begin_life in (rig.crash, rig.restart, rig.crash):
        begin_life()
        was_clean.append(rig.directory.was_closed_cleanly)
    assert was_clean == [True, False, True, False]
    rig.close()


def test_partitions_are_found_by_topic_id_and_nothing_else_is(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, "c", 1)
    log = directory.log(TOPIC_ID, PARTITION, True, "flights", LogSettings())
    log.append_as_leader(make_batch(1), headers_of(make_batch(1)), 1)
    directory.close()
    name = TOPIC_ID.hex()
    for other in (
        "lost+found",
        "flights-0",
        f"{name}-x",
        f"{name}-03",
        f"{name.upper()}-1",
        f"{name}-99999999999",
    ):
        (tmp_path / other).mkdir()
    (tmp_path / f"{name}-7").symlink_to(tmp_path / f"{name}-3")
    (tmp_path / f"{name}-8").write_text("a file")
    directory = DataDirectory.open(tmp_path, "c", 1)
    assert directory.partitions() == [KEY]
    about = json.loads((tmp_path / f"{name}-3" / "partition.json").read_text())
    assert about == {"version": 1, "topic": "flights", "topic_id": name, "partition": 3}
    directory.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_behind_a_link_is_not_taken_for_one_that_is_not_there(tmp_path: Path, clean: bool) -> None:
    rig = LogRig(tmp_path)
    rig.fill(3)
    rig.close(clean)
    rig.log_directory.rename(tmp_path / "elsewhere")
    rig.log_directory.symlink_to(tmp_path / "elsewhere")
    rig.open()
    assert offsets(rig.log) == [0, 1, 2]
    rig.append(1)
    assert offsets(rig.log) == [0, 1, 2, 3]
    rig.close()


def test_a_log_that_is_not_there_is_not_made_unless_asked(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, "c", 1)
    with pytest.raises(UnknownLog, match="flights-0"):
        directory.log(TOPIC_ID, 0, False, "flights", LogSettings())
    made = directory.log(TOPIC_ID, 0, True, "flights", LogSettings())
    assert directory.log(TOPIC_ID, 0, False, "flights", LogSettings()) is made
    directory.close()


def test_thousands_of_partitions_without_data_cost_no_file(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, "c", 1)
    before, names_before = open_files(), sorted(tmp_path.iterdir())
    logs = [directory.log(TOPIC_ID, at, True, "t", LogSettings()) for at in range(3_000)]
    for log in logs:
        log.assign_epoch(1, 0)
        assert log.read(0, 100, 0) == []
    assert open_files() == before
    assert sorted(tmp_path.iterdir()) == names_before
    directory.close()


def test_a_partition_that_never_had_a_record_is_opened_without_a_look_at_the_disk(tmp_path: Path) -> None:
    looked: list[str] = []

    class Looking(OsFiles):
        def exists(self, path: str) -> bool:
            looked.append(path)
            return super().exists(path)

    directory = DataDirectory.open(tmp_path, "c", 1, files=Looking())
    looked.clear()
    for at in range(10):
        directory.log(TOPIC_ID, at, True, "t", LogSettings())
    assert looked == []
    directory.close()


def test_open_files_are_capped_however_many_partitions_are_used(tmp_path: Path) -> None:
    directory = DataDirectory.open(
        tmp_path, "c", 1, DirectorySettings(open_files_max=16, tail_bytes_max=0, tail_bytes_per_log_max=0)
    )
    before = open_files()
    logs = []
    for at in range(200):
        log = directory.log(TOPIC_ID, at, True, "t", LogSettings())
        batch = make_batch(1, partition=at)
        log.append_as_leader(batch, [headers_of(make_batch(1))[0]], 1)
        logs.append(log)
    for log in logs:
        assert log.read(0, 100, 1)
    assert open_files() - before <= 16
    directory.close()
    assert open_files() <= before


def test_the_tails_of_all_logs_share_one_budget(tmp_path: Path) -> None:
    directory = DataDirectory.open(
        tmp_path, "c", 1, DirectorySettings(tail_bytes_max=50_000, tail_bytes_per_log_max=20_000)
    )
    batch = make_batch(1, b"x" * 5_000)
    for at in range(20):
        log = directory.log(TOPIC_ID, at, True, "t", LogSettings())
        for _ in range(6):
            log.append_as_leader(batch, headers_of(batch), 1)
        assert log._tail.size_bytes <= 20_000
    tails = directory._volume.tails
    assert 30_000 < tails.size_bytes <= 50_000
    assert tails.size_bytes == sum(log._tail.size_bytes for log in directory._logs.values())
    directory.close()
    assert tails.size_bytes == 0


def test_a_small_batch_does_not_keep_a_large_message_in_memory(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, "c", 1)
    log = directory.log(TOPIC_ID, PARTITION, True, "t", LogSettings())
    batch = make_batch(1)
    message = batch + b"the other partitions" * 10_000
    log.append_as_leader(memoryview(message)[: len(batch)], headers_of(batch), 1)
    assert all(memoryview(piece).obj is not message for piece in log.read(0, 1, 1))
    whole = bytes(bytearray(batch))
    log.append_as_leader(memoryview(whole), headers_of(batch), 1)
    assert any(memoryview(piece).obj is whole for piece in log.read(1, 1, 2))
    directory.close()


def test_quarantine_keeps_the_data_for_the_grace_period(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.fill(3)
    log = rig.log
    rig.directory.quarantine(*KEY, now_us=5 * DAY_US)
    rig.directory.quarantine(*KEY, now_us=5 * DAY_US)
    with pytest.raises(LogClosed):
        rig.append()
    assert not rig.log_directory.exists()
    assert rig.directory.partitions() == []
    assert log.is_closed
    assert rig.directory.delete_expired_quarantine(6 * DAY_US) == []
    assert len(list((rig.path / "quarantine").glob("*/*.log"))) == 1
    assert rig.directory.delete_expired_quarantine(6 * DAY_US + 1) == [f"{TOPIC_ID.hex()}-3.{5 * DAY_US}"]
    assert list((rig.path / "quarantine").iterdir()) == []
    again = rig.directory.log(*KEY, True, "flights", LogSettings())
    assert again.log_end_offset == 0
    rig.close()


def test_a_partition_put_aside_twice_at_one_time_is_kept_twice(tmp_path: Path) -> None:
    """The time of a directory counts milliseconds, and goes on where it was written down last."""
    rig = LogRig(tmp_path)
    for _ in range(2):
        rig.fill(3)
        rig.directory.quarantine(*KEY, now_us=5 * DAY_US)
        rig.log = rig.directory.log(*KEY, True, "flights", LogSettings())
    assert not rig.directory.failed
    assert len(list((rig.path / "quarantine").glob("*/*.log"))) == 2
    rig.close()


def test_two_that_were_put_aside_while_the_clock_was_wrong_begin_their_grace_together(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    for now_us in (8 * DAY_US, 9 * DAY_US):
        rig.fill(3)
        rig.directory.quarantine(*KEY, now_us=now_us)
        rig.log = rig.directory.log(*KEY, True, "flights", LogSettings())
    assert rig.directory.delete_expired_quarantine(5 * DAY_US) == []
    assert not rig.directory.failed
    assert len(list((rig.path / "quarantine").glob("*/*.log"))) == 2
    rig.close()


def test_checkpoints_keep_what_is_not_said_again(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.fill(5)
    rig.directory.checkpoint_high_watermarks({KEY: 4})
    rig.directory.checkpoint_high_watermarks({})
    assert rig.crash().high_watermark_checkpoint == 4
    rig.close()
    rig.open()
    # A life in which the partition is never opened.
    rig.close()
    DataDirectory.open(rig.path, "cluster", 1).close()
    assert rig.open().high_watermark_checkpoint == 4
    rig.close()


def test_logs_can_be_looked_into_while_they_are_open_and_when_damaged(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.fill(3)
    found = list(inspect(rig.path))
    assert [batch.header.base_offset for batch in found if isinstance(batch, InspectedBatch)] == [0, 1, 2]
    rig.close()
    (segment,) = rig.segments()
    segment.write_bytes(segment.read_bytes()[:-1])
    *whole, damage = inspect(segment)
    assert len(whole) == 2
    assert isinstance(damage, InspectedDamage)
    assert damage.position == 2 * len(make_batch(1))
    assert offsets(rig.open()) == [0, 1]
    rig.close()


def test_what_an_operator_has_put_into_the_quarantine_costs_no_disk(tmp_path: Path) -> None:
    """It is not deleted, and neither is what it is in. All else is."""
    rig = LogRig(tmp_path)
    rig.fill(3)
    rig.directory.quarantine(*KEY, now_us=1)
    (first,) = (rig.path / "quarantine").iterdir()
    (first / "copies").mkdir()
    rig.log = rig.directory.log(*KEY, True, "flights", LogSettings())
    rig.fill(3)
    rig.directory.quarantine(*KEY, now_us=2)
    assert rig.directory.delete_expired_quarantine(2 * DAY_US) == [f"{TOPIC_ID.hex()}-3.2"]
    assert not rig.directory.failed
    assert (first / "copies").is_dir()
    rig.close()


def test_whoever_wants_a_log_that_another_thread_puts_aside_waits_and_gets_a_new_one(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.fill(3)
    renaming, may_go_on = threading.Event(), threading.Event()
    replace = rig.files.replace

    def slow_replace(source: str, target: str) -> None:
        renaming.set()
        assert may_go_on.wait(60)
        replace(source, target)

    rig.files.replace = slow_replace  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as threads:
        leaving = threads.submit(rig.directory.quarantine, *KEY, 7)
        assert renaming.wait(60)
        assert rig.log.is_closed
        coming = threads.submit(rig.directory.log, *KEY, True, "flights", LogSettings())
        assert not coming.done()
        may_go_on.set()
        leaving.result(60)
        assert coming.result(60).log_end_offset == 0
    assert rig.directory.partitions() == [KEY]
    rig.close()


def test_what_there_is_no_room_to_put_aside_stays_and_can_be_put_aside_later(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.fill(3)
    rig.files.faults.append(Fault("replace", errno.ENOSPC, "quarantine"))
    with pytest.raises(DiskFull):
        rig.directory.quarantine(*KEY, 7)
    assert rig.directory.partitions() == [KEY]
    assert offsets(rig.directory.log(*KEY, False, "flights", LogSettings())) == [0, 1, 2]
    rig.directory.quarantine(*KEY, 8)
    assert rig.directory.partitions() == []
    rig.close()


def test_what_there_is_no_room_to_put_aside_must_have_what_it_had_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    """A log that lacks its oldest records would seem to begin where they end."""
    rig = LogRig(tmp_path, LogSettings(segment_bytes=1))
    rig.fill(3)
    rig.close(clean=False)
    rig.segments()[0].unlink()
    rig.open_directory()
    assert rig.directory.log(*KEY, False, "flights", rig.settings).lacks_front
    rig.files.faults.append(Fault("replace", errno.ENOSPC, "quarantine"))
    with pytest.raises(DiskFull):
        rig.directory.quarantine(*KEY, 7)
    again = rig.directory.log(*KEY, False, "flights", rig.settings)
    assert (again.lacks_front, again.log_start_offset) == (True, 0)
    rig.close()


def test_a_log_that_could_not_be_opened_must_have_what_it_had_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    rig = LogRig(tmp_path)
    rig.fill(3)
    size_bytes = rig.segments()[0].stat().st_size
    rig.close(clean=False)
    rig.segments()[0].write_bytes(rig.segments()[0].read_bytes()[: size_bytes // 3])
    rig.open_directory()
    rig.files.faults.append(Fault("open", errno.EMFILE, "leader_epochs"))
    with pytest.raises(StorageFailed, match="ulimit"):
        rig.directory.log(*KEY, False, "flights", rig.settings)
    again = rig.directory.log(*KEY, False, "flights", rig.settings)
    assert (again.lost_data, again.log_end_offset) == (True, 1)
    rig.close()


def test_a_log_whose_broker_is_killed_while_it_is_put_aside_is_missed_or_has_its_mark(
    tmp_path: Path,
) -> None:
    """Else one that is put aside, since it lacks its oldest records, would seem to begin where they end."""
    rig = LogRig(tmp_path)
    rig.fill(3)
    rig.files.faults.append(Fault("sync_directory", errno.EIO, "quarantine"))
    with pytest.raises(StorageFailed):
        rig.directory.quarantine(*KEY, 7)
    rig.close(clean=False)
    directory = rig.open_directory()
    assert directory.is_missing(*KEY)
    rig.close()


def test_a_known_directory_opens_on_a_full_disk_and_a_new_one_does_not(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.fill(3)
    rig.close()
    full = FaultyFiles()
    full.faults.append(Fault("write_at", errno.ENOSPC, lasting=True))
    directory = DataDirectory.open(rig.path, "cluster", 1, files=full)
    assert offsets(directory.log(*KEY, False, "flights", LogSettings())) == [0, 1, 2]
    directory.close()
    with pytest.raises(DiskFull):
        DataDirectory.open(tmp_path / "new", "cluster", 1, files=full)


def test_a_disk_that_does_not_say_whether_a_name_exists_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DataDirectory.open(tmp_path, "another cluster", 1).close()
    lstat = os.lstat

    def failing(path: str) -> os.stat_result:
        if path.endswith("meta.json"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", failing)
    with pytest.raises(StorageFailed):
        DataDirectory.open(tmp_path, "cluster", 1)
    monkeypatch.undo()
    assert json.loads((tmp_path / "meta.json").read_text())["cluster_id"] == "another cluster"


def test_notes_are_kept_replaced_and_removed(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, "c", 1)
    assert directory.read_note("note") is None
    for contents in (b"one", b"another"):
        directory.write_note("note", contents)
        assert directory.read_note("note") == contents
    for _ in range(2):
        directory.remove_note("note")
        assert directory.read_note("note") is None
    directory.close()
