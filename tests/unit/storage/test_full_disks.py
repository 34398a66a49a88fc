"""Opening a log needs no room: a broker that cannot open it says that it has nothing, and another one leads
that has less."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faulty_files import FaultyFiles
from hightide.batch.header import Buffer
from hightide_broker.storage import DataDirectory, DiskFull, Log
from log_rig import KEY, LogRig, offsets
from unit.storage.test_what_was_promised import (
    END,
    LOSSES,
    SETTINGS,
    SIZE,
    SMALL_DAMAGES,
    contents_of,
    flip,
    last,
    written,
)

Damage = Callable[[LogRig], object]


def damaged(rig: LogRig, place: int) -> None:
    """A bit flips in the second batch of a segment."""
    flip(rig.segments()[place], SIZE + SIZE // 2)


DAMAGES: dict[str, Damage] = {
    **LOSSES,
    "the marks gone": lambda rig: (rig.path / "marks").unlink(),
    "a bit of the last segment flipped": lambda rig: damaged(rig, -1),
    "a bit of the one before flipped": lambda rig: damaged(rig, -2),
}


def of_small_files() -> Iterator[tuple[str, Damage]]:
    for name in ("leader_epochs", "log_start"):
        for what, damage in SMALL_DAMAGES.items():
            yield f"{name} {what}", lambda rig, name=name, damage=damage: damage(rig.log_directory / name)  # type: ignore[misc]


DAMAGES |= dict(of_small_files())


class FullDisk(FaultyFiles):
    """A disk without room for a new name or a longer file, as long as it is full."""

    is_full = True

    def _use(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: str, create: bool) -> int:
        if create and not os.path.lexists(path):
            self._use()
        return super().open(path, create)

    def make_directory(self, path: str) -> None:
        if not os.path.lexists(path):
            self._use()
        super().make_directory(path)

    def write_at(self, fd: int, buffers: list[Buffer], position: int) -> int:  # type: ignore[override]
        if position + sum(map(len, buffers)) > os.fstat(fd).st_size:
            self._use()
        return super().write_at(fd, buffers, position)


def stopped(path: Path, damage: Damage) -> LogRig:
    """A rig whose process was killed, and whose files were damaged."""
    rig = written(path)
    rig.close(clean=False)
    damage(rig)
    rig.settles = False
    return rig


def open_with(rig: LogRig, files: FaultyFiles) -> Log:
    rig.files = files
    rig.directory = DataDirectory.open(rig.path, "cluster", 1, files=files)
    rig.log = rig.directory.log(*KEY, True, "flights", SETTINGS)
    return rig.log


def findings(log: Log) -> tuple[object, ...]:
    reached = (log.log_start_offset, log.log_end_offset, log.durable_end_offset)
    return *reached, log.epochs.entries, log.lost_data, log.lacks_front


@pytest.mark.parametrize("boots", [0, 1], ids=["killed", "after a power cut"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_is_found_on_a_full_disk_as_on_another(tmp_path: Path, damage: str, boots: int) -> None:
    rig = stopped(tmp_path / "full", DAMAGES[damage])
    shutil.copytree(rig.path, tmp_path / "other" / "data")
    rig.files._boot += boots
    other = DataDirectory.open(tmp_path / "other" / "data", "cluster", 1, files=FaultyFiles(rig.files))
    with_room = findings(other.log(*KEY, True, "flights", SETTINGS))
    other.close(clean=False)
    files = FullDisk(rig.files)
    for _ in range(2):
        assert findings(open_with(rig, files)) == with_room
        rig.close(clean=False)
        files = FullDisk(files)
    # There is room again.
    log = open_with(rig, FaultyFiles(files))
    assert findings(log) == with_room
    end = rig.append(1, epoch=7)
    rig.directory.settle()
    assert rig.crash().log_end_offset == end
    rig.close()


@pytest.mark.parametrize("damage", [each for each in DAMAGES if "leader_epochs" in each])
def test_epochs_that_find_no_room_are_written_with_the_next_batch(tmp_path: Path, damage: str) -> None:
    rig = stopped(tmp_path, DAMAGES[damage])
    files = FullDisk(rig.files)
    epochs = open_with(rig, files).epochs.entries
    with pytest.raises(DiskFull):
        rig.append(1, epoch=7)
    assert rig.log.epochs.entries == epochs
    files.is_full = False
    rig.append(1, epoch=7)
    assert rig.log.epochs.latest_written == 7
    rig.log.flush()
    rig.restart()
    assert rig.log.epochs.entries == (*epochs, (7, END))
    rig.close()


@pytest.mark.parametrize("damage", ["a bit of the last segment flipped", "a bit of the one before flipped"])
def test_what_is_cut_off_stays_where_it_is_until_there_is_room_to_keep_it(
    tmp_path: Path, damage: str
) -> None:
    """It may be the last copy. Until then nothing may take its place."""
    rig = stopped(tmp_path, DAMAGES[damage])
    before = {path.name: path.read_bytes() for path in rig.segments()}
    files = FullDisk(rig.files)
    log = open_with(rig, files)
    rig.directory.settle()
    end = log.log_end_offset
    readable = contents_of(rig)
    for change in (
        lambda: rig.append(1, epoch=7),
        lambda: log.truncate_to(6),
        lambda: log.truncate_and_start_at(100),
        lambda: log.assign_epoch(7, end),
        log.roll,
        lambda: log.at_rest.mend(log.at_rest.segments()[-1]),
        log.keep_aside,
    ):
        with pytest.raises(DiskFull):
            change()
    assert log.takes_nothing_yet
    assert {path.name: path.read_bytes() for path in rig.segments()} == before
    assert not list(rig.path.glob("quarantine/*/*")), "half a copy takes room that others need"
    files.is_full = False
    log.keep_aside()
    assert not rig.log.takes_nothing_yet
    kept = b"".join(path.read_bytes() for path in sorted(rig.path.glob("quarantine/*/*")))
    left = b"".join(path.read_bytes() for path in rig.segments())
    assert len(kept) + len(left) == sum(map(len, before.values()))
    assert contents_of(rig) == readable
    assert rig.append(1, epoch=7) == end + 1
    rig.crash()
    assert not rig.log.lost_data
    assert offsets(rig.log)[-1] == end
    rig.close()


def test_a_clean_stop_before_there_is_room_does_not_hide_what_was_cut_off(tmp_path: Path) -> None:
    rig = stopped(tmp_path, DAMAGES["a bit of the last segment flipped"])
    size = last(rig).stat().st_size
    open_with(rig, FullDisk(rig.files))
    rig.directory.settle()
    rig.directory.close()
    assert last(rig).stat().st_size == size
    rig.open()
    assert not rig.log.takes_nothing_yet
    assert [path.stat().st_size for path in rig.path.glob("quarantine/*/*")] == [size - SIZE]
    rig.close()


@pytest.mark.parametrize("damage", ["a bit of the last segment flipped", "a bit of the one before flipped"])
def test_no_power_cut_takes_what_is_kept_aside(tmp_path: Path, damage: str) -> None:
    for seed in range(20):
        rig = stopped(tmp_path / str(seed), DAMAGES[damage])
        rig.files = FaultyFiles()  # What was written before is on disk.
        before = sum(path.stat().st_size for path in rig.segments())
        rig.open()
        assert sum(path.stat().st_size for path in rig.segments()) < before
        rig.cut_power(seed)
        found = [*rig.segments(), *rig.path.glob("quarantine/*/*")]
        assert sum(path.stat().st_size for path in found) >= before, seed
        rig.close()
