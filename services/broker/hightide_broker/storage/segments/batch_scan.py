"""Goes through the batches of a stretch of a file, reading it in big pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from hightide.batch.errors import CorruptBatch
from hightide.batch.header import HEADER_SIZE_BYTES, BatchHeader, parse, verify_crc

__all__ = ["OverlongBatch", "TornBatch", "check_order", "scan"]

_PIECE_BYTES: Final = 256 * 1024


class TornBatch(CorruptBatch):
    """The file ends within the batch, or holds zeros where it should start: its write was not finished."""


class OverlongBatch(TornBatch):
    """The file ends within the batch, as far as its header says how long it is. Whole batches behind that
    header say that it is not."""


def check_order(header: BatchHeader, next_offset: int, leader_epoch: int) -> None:
    """Check the fields that a leader stamps, which are outside of the CRC but follow from the batch before.
    Raises CorruptBatch."""
    if header.base_offset != next_offset:
        raise CorruptBatch(f"the batch has offset {header.base_offset}, the next is {next_offset}")
    if header.leader_epoch < leader_epoch:
        raise CorruptBatch(f"leader epoch {header.leader_epoch} comes after {leader_epoch}")


def scan(
    read: Callable[[int, int], bytes],
    position: int,
    end: int,
    verify: bool,
    piece_bytes: int = _PIECE_BYTES,
    next_offset: int | None = None,
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from `position` to `end`; `read(size, position)` reads the file.

    With `verify`, each batch's CRC is checked before it is given. Fields outside of the CRC are checked if
    `next_offset`, that of the first batch, is known: offsets follow each other, and leader epochs never fall.
    Raises TornBatch or another BatchError at the first batch that cannot be used; those before it were given
    by then.
    """
    leader_epoch = -1
    piece = b""
    piece_at = position
    while position < end:
        at = position - piece_at
        if len(piece) - at < HEADER_SIZE_BYTES:
            piece, piece_at, at = read(min(piece_bytes, end - position), position), position, 0
            if len(piece) < HEADER_SIZE_BYTES:
                raise TornBatch(f"the file ends {len(piece)} bytes into a batch header")
            if not any(piece[:HEADER_SIZE_BYTES]):
                raise TornBatch("there are zeros where a batch header should be")
        elif not any(piece[at : at + HEADER_SIZE_BYTES]):
            raise TornBatch("there are zeros where a batch header should be")
        header = parse(piece, at)
        if header.size_bytes > end - position:
            raise OverlongBatch(f"the file ends {end - position} bytes into a batch of {header.size_bytes}")
        if verify:
            if len(piece) - at < header.size_bytes:
                piece, piece_at, at = read(max(piece_bytes, header.size_bytes), position), position, 0
            verify_crc(piece, at, header)
        if next_offset is not None:
            check_order(header, next_offset, leader_epoch)
            next_offset, leader_epoch = header.next_offset, header.leader_epoch
        yield position, header
        position += header.size_bytes
        if position - piece_at > len(piece):
            piece, piece_at = b"", position
