"""A log that was cut, and a power cut."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hightide_broker.storage.directory.data_directory import DataDirectory
from hightide_broker.storage.log.log import Log
from hightide_broker.storage.settings import LogSettings
from log_rig import KEY, read_all
from sim.topics.files import MemoryDisk, MemoryFiles
from stored_batches import as_sent_by_leader, make_batch


def opened(disk: MemoryDisk) -> Log:
    directory = DataDirectory.open(Path("/d"), "cluster", 1, files=MemoryFiles(disk, lambda: 0))
    return directory.log(*KEY, True, "tide", LogSettings())


@pytest.mark.parametrize("seed", range(100))
def test_what_was_cut_off_is_not_there_again_before_what_followed_its_replacement(seed: int) -> None:
    """The log would end in the epoch of its leader, so that nobody would compare what lies before."""
    disk = MemoryDisk(["/d"])
    log = opened(disk)
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"cut off"), 0, 1))
    log.flush()
    disk.settle()
    log.truncate_to(0)
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"in its place"), 0, 2))
    log.roll()
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"follows"), 1, 3))
    disk.cut_power(Random(seed))
    assert [header.leader_epoch for header in read_all(opened(disk))] in ([], [1], [2], [2, 3])


@pytest.mark.parametrize("seed", range(200))
def test_nor_is_a_whole_segment(seed: int) -> None:
    """Its file was removed, and another one got the name."""
    disk = MemoryDisk(["/d"])
    log = opened(disk)
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"stays"), 0, 1))
    log.roll()
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"cut off"), 1, 1))
    log.flush()
    disk.settle()
    log.truncate_to(1)
    log.roll()
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"in its place"), 1, 2))
    log.roll()
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"follows"), 2, 3))
    disk.cut_power(Random(seed))
    found = [header.leader_epoch for header in read_all(opened(disk))]
    assert found in ([1], [1, 1], [1, 2], [1, 2, 3])
