"""Goes through the batches of a stretch of a file, reading it in big pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from hightide.batch.errors import CorruptBatch
from hightide.batch.header import HEADER_SIZE_BYTES, BatchHeader, parse, verify_crc

__all__ = ["TornBatch", "scan"]

_PIECE_BYTES: Final = 256 * 1024


class TornBatch(CorruptBatch):
    """The file ends within the batch, or holds zeros where it should start: its write was not finished."""


def scan(
    read: Callable[[int, int], bytes],
    position: int,
    end: int,
    verify: bool,
    piece_bytes: int = _PIECE_BYTES,
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from `position` to `end`; `read(size, position)` reads the file.

    With `verify`, each batch's CRC is checked before it is given. Raises TornBatch or another BatchError at
    the first batch that cannot be used; those in front of it were given by then.
    """
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
            raise TornBatch(f"the file ends {end - position} bytes into a batch of {header.size_bytes}")
        if verify:
            if len(piece) - at < header.size_bytes:
                piece, piece_at, at = read(max(piece_bytes, header.size_bytes), position), position, 0
            verify_crc(piece, at, header)
        yield position, header
        position += header.size_bytes
        if position - piece_at > len(piece):
            piece, piece_at = b"", position
