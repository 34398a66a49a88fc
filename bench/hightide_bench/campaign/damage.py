"""Damage to the files of one broker: changed bytes, and files that are cut, emptied or deleted.

Each function takes the data directory and a random generator, changes the files in place, and returns a
description of the damage, which is empty if there was no file to damage. `strikes` calls them.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

Damage = Callable[[Path, random.Random], str]

SMALL_FILES: Final = ("leader_epochs", "log_start", "checkpoints")
"""Files beside the segments, by name; and, by suffix, the indexes of closed segments."""
SMALL_SUFFIXES: Final = (".index", ".timeindex", ".producers")
TAIL_BYTES_MAX: Final = 4096


def partition_directories(data_directory: Path) -> list[Path]:
    """The directories of partitions that hold at least one segment with records."""
    return sorted(path for path in data_directory.glob("*-[0-9]*") if segments(path))


def segments(partition: Path) -> list[Path]:
    """The segments of a partition that are not empty, in order."""
    return sorted(path for path in partition.glob("*.log") if path.stat().st_size)


def cut_the_tail(data_directory: Path, chance: random.Random) -> str:
    """Cut some bytes off the last segment of a partition."""
    for partition in _some(partition_directories(data_directory), chance):
        last = segments(partition)[-1]
        size = last.stat().st_size
        left = max(0, size - chance.randint(1, min(size, TAIL_BYTES_MAX)))
        with last.open("r+b") as file:
            file.truncate(left)
        return f"{_name(last)} cut from {size} to {left} bytes"
    return ""


def zero_the_tail(data_directory: Path, chance: random.Random) -> str:
    """Overwrite the end of the last segment of a partition with zeros."""
    for partition in _some(partition_directories(data_directory), chance):
        last = segments(partition)[-1]
        size = last.stat().st_size
        count = chance.randint(1, min(size, TAIL_BYTES_MAX))
        with last.open("r+b") as file:
            file.seek(size - count)
            file.write(bytes(count))
        return f"the last {count} bytes of {_name(last)} are zeros"
    return ""


def lose_segments(data_directory: Path, chance: random.Random) -> str:
    """Delete the first, the last, or middle segments of a partition."""
    for partition in _some(partition_directories(data_directory), chance):
        found = segments(partition)
        count = chance.randint(1, max(1, len(found) // 2))
        start = chance.choice((0, len(found) - count, chance.randint(0, len(found) - count)))
        for path in found[start : start + count]:
            path.unlink()
        return f"{count} of {len(found)} segments of {partition.name} are gone, from number {start} on"
    return ""


def lose_a_partition(data_directory: Path, chance: random.Random) -> str:
    """Delete the directory of a partition."""
    for partition in _some(partition_directories(data_directory), chance):
        shutil.rmtree(partition)
        return f"the directory {partition.name} is gone"
    return ""


def lose_the_disk(data_directory: Path, chance: random.Random) -> str:
    """Delete everything, as when a disk was replaced by an empty one."""
    del chance
    for path in data_directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return "the disk was replaced by an empty one"


def flip_bits(data_directory: Path, chance: random.Random) -> str:
    """Flip one to three bits of a closed segment, or of the active one if there is no other."""
    for partition in _some(partition_directories(data_directory), chance):
        found = segments(partition)
        return _flip(chance.choice(found[:-1] or found), chance, chance.choice((1, 1, 2, 3)))
    return ""


def lose_a_closed_segment(data_directory: Path, chance: random.Random) -> str:
    """Delete one segment that is not written to any more."""
    for partition in _some(partition_directories(data_directory), chance):
        closed = segments(partition)[:-1]
        if closed:
            gone = chance.choice(closed)
            gone.unlink()
            return f"{_name(gone)} is gone"
    return ""


def spoil_a_small_file(data_directory: Path, chance: random.Random) -> str:
    """Cut, empty, flip or delete one of the files beside the segments."""
    found = [
        path
        for path in sorted(data_directory.rglob("*"))
        if path.is_file() and (path.name in SMALL_FILES or path.suffix in SMALL_SUFFIXES)
    ]
    for path in _some(found, chance):
        size = path.stat().st_size
        how = chance.choice(("cut", "flip", "delete")) if size else "delete"
        if how == "delete":
            path.unlink()
            return f"{_name(path)} is gone"
        if how == "flip":
            return _flip(path, chance, 1)
        left = chance.randint(0, size - 1)
        with path.open("r+b") as file:
            file.truncate(left)
        return f"{_name(path)} cut from {size} to {left} bytes"
    return ""


def _flip(path: Path, chance: random.Random, count: int) -> str:
    content = bytearray(path.read_bytes())
    places = sorted(chance.randrange(len(content)) for _ in range(count))
    for place in places:
        content[place] ^= 1 << chance.randrange(8)
    with path.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(content[place : place + 1])
    return f"{count} bits of {_name(path)} flipped, at bytes {places}"


def _some(paths: list[Path], chance: random.Random) -> list[Path]:
    return chance.sample(paths, len(paths))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


OFFLINE: Final[dict[str, Damage]] = {
    "bits flipped": flip_bits,
    "tail cut": cut_the_tail,
    "tail zeroed": zero_the_tail,
    "segments lost": lose_segments,
    "partition lost": lose_a_partition,
    "disk replaced": lose_the_disk,
    "small file spoilt": spoil_a_small_file,
}
"""Damage to the files of a broker that is not running."""

LIVE: Final[dict[str, Damage]] = {
    "bits flipped, live": flip_bits,
    "segment lost, live": lose_a_closed_segment,
}
"""Damage to the files of a running broker; closed segments only, since the active one is being written."""
