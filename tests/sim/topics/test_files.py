"""What the files of a simulated machine keep, and what a power cut takes."""

from __future__ import annotations

from random import Random

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
