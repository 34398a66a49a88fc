"""An append that finds room for a part of its batches, and a power cut."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hightide_broker.storage.directory.data_directory import DataDirectory
from hightide_broker.storage.errors import DiskFull
from hightide_broker.storage.log.log import Log
from hightide_broker.storage.settings import LogSettings
from log_rig import KEY
from sim.topics.files import MemoryDisk, MemoryFiles
from stored_batches import as_sent_by_leader, headers_of, make_batch

FIRST, SECOND = make_batch(1, b"first"), make_batch(1, b"second")
SEEDS = range(20)


class Machine:
    """One log on a disk that is nearly full."""

    def __init__(self) -> None:
        self.disk = MemoryDisk(["/d"])
        self.log = self.open()
        self.log.append_as_follower(as_sent_by_leader(make_batch(1, b"before"), 0, 1))
        self.log.flush()
        self.disk.settle()

    def open(self) -> Log:
        files = MemoryFiles(self.disk, lambda: 0)
        return DataDirectory.open(Path("/d"), "cluster", 1, files=files).log(
            *KEY, True, "tide", LogSettings()
        )

    def cut_power(self, seed: int) -> Log:
        self.disk.cut_power(Random(seed))
        return self.open()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_part_of_it_is_there_in_place_of_a_later_record_of_the_same_leader(seed: int) -> None:
    """Other replicas have the later one at that offset, in the same epoch: nothing would tell the two apart,
    and readers of this log would miss what was acknowledged."""
    machine = Machine()
    machine.log.assign_epoch(2, 1)
    machine.disk.room["/d"] = len(FIRST) + 40
    with pytest.raises(DiskFull):
        machine.log.append_as_leader(FIRST + SECOND, headers_of(FIRST + SECOND), 2)
    machine.disk.room.clear()
    later = make_batch(1, b"later")
    machine.log.append_as_leader(later, headers_of(later), 2)
    log = machine.cut_power(seed)
    assert b"first" not in b"".join(log.read(0, 1 << 20, log.log_end_offset))


@pytest.mark.parametrize("seed", SEEDS)
def test_nor_in_place_of_an_older_record_of_another_leader(seed: int) -> None:
    """The log would seem newer than those that have all such records, and would be elected among logs that
    lost their ends."""
    machine = Machine()
    machine.disk.room["/d"] = len(FIRST) + 40
    with pytest.raises(DiskFull):
        machine.log.append_as_follower(as_sent_by_leader(FIRST, 1, 3) + as_sent_by_leader(SECOND, 2, 3))
    machine.disk.room.clear()
    machine.log.append_as_follower(as_sent_by_leader(make_batch(1, b"older"), 1, 2))
    assert machine.cut_power(seed).epochs.latest < 3


@pytest.mark.parametrize("seed", SEEDS)
def test_nor_is_its_epoch(seed: int) -> None:
    """Of one batch nothing can be there, but the epoch that it began was written before it."""
    machine = Machine()
    machine.disk.room["/d"] = 40
    with pytest.raises(DiskFull):
        machine.log.append_as_follower(as_sent_by_leader(FIRST, 1, 3))
    machine.disk.room.clear()
    machine.log.append_as_follower(as_sent_by_leader(make_batch(1, b"older"), 1, 2))
    assert machine.cut_power(seed).epochs.latest < 3
