"""How the checkers read the logs of a simulated machine."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from random import Random

import pytest
from hightide_broker.storage.directory.data_directory import DataDirectory
from hightide_broker.storage.errors import DiskFull
from hightide_broker.storage.settings import LogSettings
from sim.topics.files import MemoryDisk, MemoryFiles
from sim.topics.logs import LogsOnDisk

KEY = (b"t" * 16, 0)


@pytest.fixture
def disk() -> MemoryDisk:
    """Of a machine whose log begins at 5, and whose disk has no room to say so but in the log's mark."""
    for room_bytes in itertools.count():
        disk = MemoryDisk(["/d"])
        directory = DataDirectory.open(Path("/d"), "cluster", 1, files=MemoryFiles(disk, lambda: 0))
        log = directory.log(*KEY, True, "tide", LogSettings())
        disk.room["/d"] = room_bytes
        with contextlib.suppress(DiskFull):
            log.truncate_and_start_at(5)
            break
    assert [path for path, _ in disk.files_below("/d") if path.endswith(("log", "start"))] == []
    return disk


def start_of(disk: MemoryDisk) -> int:
    return LogsOnDisk(disk, ("/d",), {}).log(KEY).log_start


def test_a_log_without_a_segment_begins_where_its_mark_says(disk: MemoryDisk) -> None:
    assert start_of(disk) == 5


def test_a_mark_of_another_boot_says_nothing(disk: MemoryDisk) -> None:
    disk.settle()
    disk.cut_power(Random(1))
    assert start_of(disk) == 0
