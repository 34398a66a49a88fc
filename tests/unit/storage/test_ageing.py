"""What grows old by which clock: a wall that is wrong deletes nothing early, and keeps nothing for ever."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hightide_broker.storage import DataDirectory, LogSettings
from hightide_broker.storage.files.files import OsFiles
from hightide_broker.storage.volume.ageing import AgeingClock
from log_rig import LogRig, apply_retention
from stored_batches import PARTITION, TOPIC_ID, headers_of, make_batch

MINUTE_US = 60 * 1_000_000
DAY_US = 24 * 60 * MINUTE_US
WALL_US = 1_700_000_000_000_000
SETTINGS = LogSettings(segment_bytes=2 * len(make_batch(1)), retention_ms=7 * DAY_US // 1000)


@dataclass
class Machine:
    """Clocks that a test sets."""

    wall: int = WALL_US
    uptime: int = DAY_US
    boot: str = "the first"

    def wall_us(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.uptime // 1000

    def passes(self, us: int) -> None:
        self.wall += us
        self.uptime += us

    def boots(self, off_us: int) -> None:
        """It is switched off for so long; the battery of its clock is good."""
        self.wall += off_us
        self.uptime = MINUTE_US
        self.boot += "'s successor"


class FilesOfMachine(OsFiles):
    """Files that lie on it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def machine_boot(self) -> str:
        return self.machine.boot


class Kept:
    """One log in a data directory whose broker comes and goes."""

    def __init__(self, path: Path, machine: Machine) -> None:
        self.path, self.machine = path / "data", machine
        self.open()

    def open(self) -> None:
        files = FilesOfMachine(self.machine)
        self.directory = DataDirectory.open(self.path, "cluster", 1, files=files, machine=self.machine)
        self.log = self.directory.log(TOPIC_ID, PARTITION, True, "flights", SETTINGS)

    def append(self, batches: int) -> None:
        """Under the machine's wall clock, as a kernel stamps files."""
        for _ in range(batches):
            batch = make_batch(1)
            self.log.append_as_leader(batch, headers_of(batch), 1)
        for path in self.segments():
            if path.stat().st_mtime > self.machine.wall / 1e6 + 3e7:  # the real kernel wrote to it just now
                os.utime(path, (self.machine.wall / 1e6, self.machine.wall / 1e6))

    def segments(self) -> list[Path]:
        return sorted((self.path / f"{TOPIC_ID.hex()}-{PARTITION}").glob("*.log"))

    def retain(self) -> int:
        """A round of retention; where the log begins then."""
        start = apply_retention(self.log, self.directory.now_us(), self.log.log_end_offset)
        self.directory.write_time()
        return start

    def restart(self, *, clean: bool = True) -> None:
        self.directory.close(clean)
        self.open()


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def kept(tmp_path: Path, machine: Machine) -> Kept:
    """Five batches, two a segment."""
    kept = Kept(tmp_path, machine)
    kept.append(5)
    kept.retain()
    return kept


@pytest.mark.parametrize("jump_us", [8 * DAY_US, 400 * DAY_US, -8 * DAY_US])
@pytest.mark.parametrize("clean", [True, False])
def test_a_wall_that_jumps_deletes_nothing_also_over_a_restart(
    kept: Kept, machine: Machine, jump_us: int, clean: bool
) -> None:
    machine.wall += jump_us
    machine.passes(MINUTE_US)
    assert kept.retain() == 0
    kept.append(2)
    kept.log.flush()
    kept.restart(clean=clean)
    assert kept.retain() == 0
    machine.wall -= jump_us
    assert kept.retain() == 0
    kept.restart(clean=clean)
    assert kept.retain() == 0


def test_a_wall_that_jumps_in_the_first_minute_of_a_directory_deletes_nothing(
    tmp_path: Path, machine: Machine
) -> None:
    kept = Kept(tmp_path, machine)
    kept.append(5)
    machine.wall += 400 * DAY_US
    kept.append(2)
    kept.restart(clean=False)
    assert kept.retain() == 0


@pytest.mark.parametrize("jump_us", [8 * DAY_US, -8 * DAY_US])
def test_what_was_written_while_the_wall_was_wrong_goes_when_its_time_has_come(
    kept: Kept, machine: Machine, jump_us: int
) -> None:
    machine.wall += jump_us
    kept.append(2)
    kept.log.flush()
    machine.wall -= jump_us
    kept.restart()
    machine.passes(7 * DAY_US - MINUTE_US)
    assert kept.retain() == 0
    machine.passes(3 * MINUTE_US)
    assert kept.retain() == 7


@pytest.mark.parametrize("jump_us", [8 * DAY_US, -8 * DAY_US])
def test_what_a_crash_left_unsynced_is_no_older_than_the_time_that_was_written_down(
    kept: Kept, machine: Machine, jump_us: int
) -> None:
    machine.wall += jump_us
    kept.append(2)
    kept.restart(clean=False)
    assert kept.retain() == 0
    machine.passes(7 * DAY_US + 2 * MINUTE_US)
    assert kept.retain() == 7


def test_a_broker_that_was_down_for_a_week_on_a_machine_that_ran_deletes_what_grew_old(
    kept: Kept, machine: Machine
) -> None:
    kept.directory.close()
    machine.passes(6 * DAY_US)
    kept.open()
    assert kept.retain() == 0
    kept.directory.close()
    machine.passes(DAY_US + 2 * MINUTE_US)
    kept.open()
    assert kept.retain() == 5


def test_the_time_that_a_machine_was_off_makes_nothing_older_since_only_the_wall_tells_it(
    kept: Kept, machine: Machine
) -> None:
    kept.directory.close()
    machine.boots(off_us=8 * DAY_US)
    kept.open()
    assert kept.retain() == 0
    machine.passes(7 * DAY_US + 2 * MINUTE_US)
    assert kept.retain() == 5


def test_how_long_another_boot_has_lasted_makes_nothing_older(kept: Kept, machine: Machine) -> None:
    kept.directory.close()
    machine.boots(off_us=0)
    # It has run for longer by now than the one before it had; the broker starts only then.
    machine.uptime = 9 * DAY_US
    kept.open()
    assert kept.retain() == 0


def test_files_of_the_future_are_kept_for_one_retention_and_not_until_then(
    kept: Kept, machine: Machine
) -> None:
    kept.directory.close()
    for path in kept.segments():
        os.utime(path, (WALL_US / 1e6 + 10**9, WALL_US / 1e6 + 10**9))
    kept.open()
    assert kept.retain() == 0
    for _ in range(8):
        machine.passes(DAY_US)
        kept.restart()
        kept.retain()
    assert kept.log.log_start_offset == 5


def test_no_segment_is_older_than_the_one_in_front_of_it(kept: Kept, machine: Machine) -> None:
    kept.directory.close()
    for path in kept.segments()[1:]:
        os.utime(path, (0, 0))
    kept.open()
    assert kept.retain() == 0


def test_a_directory_without_a_time_is_as_old_as_the_last_change_in_it(kept: Kept, machine: Machine) -> None:
    kept.directory.close()
    (kept.path / "ageing").unlink()
    for path in kept.path.iterdir():
        os.utime(path, (WALL_US / 1e6, WALL_US / 1e6))
    machine.wall += 8 * DAY_US
    kept.open()
    assert kept.directory.now_us() == WALL_US
    assert kept.retain() == 0


def test_a_damaged_time_is_no_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "ageing").write_bytes(b"HTAG and so on, which is no whole file")
    clock = AgeingClock.open(OsFiles(), str(tmp_path), Machine(wall=5))
    assert clock.now_us() == 5
    assert "is damaged" in caplog.text


def test_what_is_put_aside_by_a_moment_to_come_is_deleted_a_grace_after_it_is_seen(
    kept: Kept, machine: Machine
) -> None:
    directory = kept.directory
    directory.quarantine(TOPIC_ID, PARTITION, directory.now_us() + 400 * DAY_US)
    assert directory.delete_expired_quarantine(directory.now_us()) == []
    machine.passes(DAY_US + 1000)
    assert len(directory.delete_expired_quarantine(directory.now_us())) == 1


def test_the_time_is_written_now_and_then_and_at_a_clean_close(kept: Kept, machine: Machine) -> None:
    written = (kept.path / "ageing").read_bytes()
    machine.passes(9 * MINUTE_US)
    kept.directory.write_time()
    assert (kept.path / "ageing").read_bytes() == written
    machine.passes(MINUTE_US)
    kept.directory.write_time()
    assert (kept.path / "ageing").read_bytes() != written
    machine.passes(MINUTE_US)
    kept.directory.close()
    machine.boots(off_us=0)
    kept.open()
    assert kept.directory.now_us() == WALL_US + 11 * MINUTE_US


def test_a_cut_is_no_append(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, SETTINGS)
    rig.fill(4)
    active = rig.segments()[-1]
    rig.restart()
    os.utime(active, (1000, 1000))
    rig.restart()
    rig.log.truncate_to(3)
    assert active.stat().st_mtime == 1000
    rig.close()
