"""What the files of a simulated machine keep, and what a power cut takes."""

from __future__ import annotations

from random import Random

import pytest
from sim.topics.files import MemoryDisk, MemoryFiles

SEEDS = range(50)


def files_on(disk: MemoryDisk) -> MemoryFiles:
    return MemoryFiles(disk, lambda: 0)


def write(files: MemoryFiles, path: str, data: bytes, *, synced: bool) -> None:
    fd = files.open(path, create=True)
    files.write_at(fd, [data], 0)
    if synced:
        files.sync(fd)
        files.sync_directory(path.rpartition("/")[0])
    files.close(fd)


def read(files: MemoryFiles, path: str) -> bytes | None:
    return files.read_at(files.open(path, create=False), 100, 0) if files.exists(path) else None


def test_a_process_that_dies_takes_nothing_with_it() -> None:
    disk = MemoryDisk(["/d"])
    write(files_on(disk), "/d/log", b"records", synced=False)
    assert read(files_on(disk), "/d/log") == b"records"


def test_a_power_cut_keeps_what_was_synced_and_any_beginning_of_the_rest() -> None:
    left = set()
    for seed in SEEDS:
        disk = MemoryDisk(["/d"])
        files = files_on(disk)
        write(files, "/d/log", b"old", synced=True)
        files.write_at(files.open("/d/log", create=False), [b"new"], 3)
        disk.cut_power(Random(seed))
        left.add(read(files_on(disk), "/d/log"))
    assert left == {b"old", b"oldn", b"oldne", b"oldnew"}


def test_a_truncation_and_a_rename_may_be_undone_until_they_are_synced() -> None:
    left = set()
    for seed in SEEDS:
        disk = MemoryDisk(["/d", "/q"])
        files = files_on(disk)
        write(files, "/d/log", b"old", synced=True)
        files.truncate(files.open("/d/log", create=False), 1)
        files.replace("/d/log", "/q/log")
        disk.cut_power(Random(seed))
        left.add((read(files_on(disk), "/d/log"), read(files_on(disk), "/q/log")))
    assert left == {(b"old", None), (b"o", None), (None, b"old"), (None, b"o")}


def test_a_file_in_a_directory_whose_own_name_is_not_synced_may_be_gone() -> None:
    left = set()
    for seed in SEEDS:
        disk = MemoryDisk(["/d"])
        files = files_on(disk)
        files.make_directory("/d/topic-0")
        write(files, "/d/topic-0/log", b"records", synced=True)
        disk.cut_power(Random(seed))
        left.add(read(files_on(disk), "/d/topic-0/log"))
    assert left == {None, b"records"}


def test_names_that_are_written_back_late_come_back_and_go_in_any_order() -> None:
    left = set()
    for seed in SEEDS:
        disk = MemoryDisk(["/d"])
        files = files_on(disk)
        for name in ("a", "b"):
            write(files, f"/d/{name}", b"old", synced=True)
        for name in ("a", "b"):
            files.remove(f"/d/{name}")
        disk.cut_power(Random(seed))
        left.add(tuple(files_on(disk).names("/d")))
    assert left == {(), ("a",), ("b",), ("a", "b")}


def test_of_one_name_nothing_is_on_disk_that_came_after_what_is_not() -> None:
    for seed in SEEDS:
        disk = MemoryDisk(["/d"])
        files = files_on(disk)
        for name, data in (("a", b"first"), ("b", b"second")):
            fd = files.open(f"/d/{name}", create=True)
            files.write_at(fd, [data], 0)
            files.sync(fd)
            if name == "a":
                files.remove("/d/a")
        files.replace("/d/b", "/d/a")
        disk.cut_power(Random(seed))
        if files_on(disk).exists("/d/b"):
            assert (read(files_on(disk), "/d/a") or b"first")[:1] == b"f"


def test_a_full_disk_takes_as_much_as_finds_room_and_what_is_removed_gives_some() -> None:
    disk = MemoryDisk(["/d"])
    files = files_on(disk)
    write(files, "/d/log", b"records", synced=True)
    fd = files.open("/d/log", create=False)
    disk.room["/d"] = 3
    assert files.write_at(fd, [b"more"], 7) == 3
    assert files.write_at(fd, [b"RECORDS"], 0) == 7
    with pytest.raises(OSError, match="No space"):
        files.write_at(fd, [b"more"], 10)
    with pytest.raises(OSError, match="No space"):
        files.open("/d/other", create=True)
    files.truncate(fd, 4)
    assert files.write_at(fd, [b"more"], 4) == 4
    files.remove("/d/log")
    files.open("/d/other", create=True)


def test_a_file_with_two_names_gives_room_with_the_last_of_them() -> None:
    disk = MemoryDisk(["/d"])
    files = files_on(disk)
    write(files, "/d/log", b"records", synced=True)
    disk.room["/d"] = 64
    files.link("/d/log", "/d/kept")
    with pytest.raises(FileExistsError):
        files.link("/d/log", "/d/kept")
    assert disk.room["/d"] == 0
    files.remove("/d/log")
    assert disk.room["/d"] == 64
    assert read(files, "/d/kept") == b"records"
    files.remove("/d/kept")
    assert disk.room["/d"] == 64 + 64 + len(b"records")
