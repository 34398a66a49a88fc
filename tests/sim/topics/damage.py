"""What happens to the files of a broker that is stopped: an operator, a repair of the file system, or a copy
put back cuts them or takes them away.

Each is one that the next start of the broker must notice by itself: it then takes itself out of the ISRs that
count on what is gone, before anybody can elect it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from sim.topics.files import Directory, File, MemoryDisk

Damage = Callable[[MemoryDisk, str, Directory, Random], str]

_SUFFIX: Final = ".log"
_OF_ALL_LOGS: Final = ("marks", "checkpoints")


def damage(disk: MemoryDisk, directories: tuple[str, ...], random: Random, kinds: Sequence[Damage]) -> str:
    """Do one of these to one file or log, and say what; empty where there is nothing to damage."""
    disk.settle()
    logs = [
        (f"{path}/{name}", log)
        for path in directories
        if isinstance(above := disk.find(path), Directory)
        for name, log in sorted(above.entries.items())
        if isinstance(log, Directory) and any(size_of(log, each) for each in segments(log))
    ]
    if not logs:
        return ""
    path, log = random.choice(logs)
    said = random.choice(kinds)(disk, path, log, random)
    disk.changes += 1
    log.version += 1
    return said


def segments(log: Directory) -> list[str]:
    """The names of a log's segments."""
    return sorted(name for name in log.entries if name.endswith(_SUFFIX))


def size_of(log: Directory, name: str) -> int:
    """Of a file, in bytes."""
    file = log.entries[name]
    assert isinstance(file, File)
    return len(file.data)


def _cut(disk: MemoryDisk, path: str, log: Directory, random: Random) -> str:
    name = [each for each in segments(log) if size_of(log, each)][-1]
    file = log.entries[name]
    assert isinstance(file, File)
    size_bytes = random.randrange(len(file.data))
    del file.data[size_bytes:]
    file.sync()
    return f"{path}/{name} is cut to {size_bytes}"


def _cut_at_the_end(disk: MemoryDisk, path: str, log: Directory, random: Random) -> str:
    """With the segments behind it, which are empty: they would say that something is missing in between."""
    for name in segments(log):
        if not size_of(log, name) and name > min(each for each in segments(log) if size_of(log, each)):
            del log.entries[name]
    return _cut(disk, path, log, random)


def _without_some(disk: MemoryDisk, path: str, log: Directory, random: Random) -> str:
    """At the front, at the end or in the middle."""
    names = [each for each in segments(log) if size_of(log, each)]
    first = random.randrange(len(names))
    gone = names[first : first + random.choice((1, len(names)))]
    for name in gone:
        del log.entries[name]
    return f"{path} lacks {gone}"


def _emptied(disk: MemoryDisk, path: str, log: Directory, random: Random) -> str:
    log.entries.clear()
    return f"{path} is emptied"


def _taken_away(disk: MemoryDisk, path: str, log: Directory, random: Random) -> str:
    above = disk.find(path.rpartition("/")[0])
    assert isinstance(above, Directory)
    del above.entries[path.rpartition("/")[2]]
    return f"{path} is taken away"


def _without_epochs(disk: MemoryDisk, path: str, log: Directory, random: Random) -> str:
    epochs = log.entries.get("leader_epochs")
    if isinstance(epochs, File):
        del epochs.data[random.randint(0, len(epochs.data)) :]
        epochs.sync()
    return f"the epochs of {path} are cut"


def _without_notes(disk: MemoryDisk, path: str, log: Directory, random: Random) -> str:
    """What says how long all the logs beside this one were."""
    above = disk.find(path.rpartition("/")[0])
    assert isinstance(above, Directory)
    name = random.choice(_OF_ALL_LOGS)
    above.entries.pop(name, None)
    return f"there are no {name} beside {path}"


DAMAGES: Final[tuple[Damage, ...]] = (
    _cut,
    _without_some,
    _emptied,
    _taken_away,
    _without_epochs,
    _without_notes,
)
KEEP_FRONT: Final[tuple[Damage, ...]] = (
    _cut_at_the_end,
    _emptied,
    _taken_away,
    _without_epochs,
    _without_notes,
)
"""Those that leave a log its oldest records, or nothing."""
