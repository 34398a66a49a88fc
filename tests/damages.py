"""What disks do to a segment without saying so: each is done to one file, in its second batch where it has
one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hightide.batch.header import iterate, stamp

Damage = Callable[[Path], None]


def _second(content: bytes | bytearray) -> int:
    places = [at for at, _ in iterate(bytes(content))]
    return places[min(1, len(places) - 1)]


def _flipped(where: int) -> Damage:
    """Turn over a bit of the second batch, so many bytes behind its start."""

    def flip(segment: Path) -> None:
        content = bytearray(segment.read_bytes())
        content[_second(content) + where] ^= 0x40
        _overwrite(segment, content)

    return flip


def _overwrite(segment: Path, content: bytes | bytearray) -> None:
    """In place, as a disk does it: whoever has the file open sees it."""
    with segment.open("r+b") as file:
        file.write(content)
        file.truncate()


def _cut(segment: Path) -> None:
    content = segment.read_bytes()
    _overwrite(segment, content[: _second(content) + 100])


def _swapped(segment: Path) -> None:
    content = segment.read_bytes()
    places = [at for at, _ in iterate(content)]
    assert len(places) >= 3, "there are no two to swap behind the first"
    ends = [*places[1:], len(content)]
    batches = [content[at:end] for at, end in zip(places, ends, strict=True)]
    batches[1], batches[2] = batches[2], batches[1]
    _overwrite(segment, b"".join(batches))


def _other_epoch(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    at = _second(content)
    header = dict(iterate(bytes(content)))[at]
    stamp(content, at, header.base_offset, header.leader_epoch + 1)
    _overwrite(segment, content)


def _zeroed(segment: Path) -> None:
    content = segment.read_bytes()
    at = _second(content)
    _overwrite(segment, content[:at] + bytes(len(content) - at))


DAMAGES: dict[str, Damage] = {
    "a flipped bit in a body": _flipped(90),
    "a flipped length": _flipped(10),
    "a flipped magic": _flipped(16),
    "a flipped base offset": _flipped(1),
    "another leader epoch": _other_epoch,
    "a cut file": _cut,
    "two batches swapped": _swapped,
    "zeros": _zeroed,
    "a deleted file": Path.unlink,
}
