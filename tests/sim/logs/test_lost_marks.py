"""A log whose mark is lost, on a disk without room for another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hightide_broker.storage.directory.data_directory import DataDirectory
from hightide_broker.storage.settings import LogSettings
from log_rig import KEY
from sim.topics.files import Directory, File, MemoryDisk, MemoryFiles
from stored_batches import as_sent_by_leader, make_batch


def opened(disk: MemoryDisk) -> DataDirectory:
    return DataDirectory.open(Path("/d"), "cluster", 1, files=MemoryFiles(disk, lambda: 0))


@pytest.mark.parametrize("room_bytes", range(0, 200, 4))
def test_a_log_without_a_mark_does_not_count_as_one_with_nothing_to_lose(room_bytes: int) -> None:
    """Else what is cut off next is missed by nobody: the directory seems to know how long its logs were."""
    disk = MemoryDisk(["/d"])
    log = opened(disk).log(*KEY, True, "tide", LogSettings())
    log.append_as_follower(as_sent_by_leader(make_batch(1, b"stays"), 0, 1))
    above = disk.find("/d")
    assert isinstance(above, Directory)
    del above.entries["marks"]
    disk.room["/d"] = room_bytes
    second = opened(disk)
    assert second.log(*KEY, True, "tide", LogSettings()).log_end_offset == 1
    assert not second.knows_its_logs
    second.settle()
    segment = disk.find(f"{log.data_directory}/{KEY[0].hex()}-{KEY[1]}/{0:020}.log")
    assert isinstance(segment, File)
    del segment.data[:]
    third = opened(disk)
    found = third.log(*KEY, True, "tide", LogSettings())
    assert found.log_end_offset == 0
    assert found.lost_data or not third.knows_its_logs
