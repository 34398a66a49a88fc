"""Puts base offset and leader epoch on batches that are about to be appended by a leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hightide.batch.header import STAMP_SIZE_BYTES, BatchHeader, Buffer, stamp, stamp_bytes

from hightide_broker.storage.volume.tail import TailBatch, worth_keeping

__all__ = ["stamped"]

# One system call takes at most 1,024 pieces; a batch that is not copied takes two.
_PIECES_MAX: Final = 1024


def stamped(batches: Buffer, headers: Sequence[BatchHeader]) -> tuple[list[Buffer], list[TailBatch]]:
    """The batches as they go to disk, and into the tail; `headers` say what to stamp. `batches` is not
    changed."""
    view = memoryview(batches)
    assert sum(header.size_bytes for header in headers) == len(view)
    if worth_keeping(view) and len(headers) * 2 <= _PIECES_MAX:
        in_tail = _stamp_in_front(view, headers)
        return [piece for batch in in_tail for piece in batch.pieces], in_tail
    return _stamp_copy(view, headers)


def _stamp_in_front(view: memoryview, headers: Sequence[BatchHeader]) -> list[TailBatch]:
    """Batches as a stamp and the rest of what was received, without copying."""
    batches = []
    at = 0
    for header in headers:
        front = stamp_bytes(header.base_offset, header.length_bytes, header.leader_epoch)
        rest = view[at + STAMP_SIZE_BYTES : at + header.size_bytes]
        batches.append(TailBatch(header.base_offset, header.next_offset, header.size_bytes, (front, rest)))
        at += header.size_bytes
    return batches


def _stamp_copy(view: memoryview, headers: Sequence[BatchHeader]) -> tuple[list[Buffer], list[TailBatch]]:
    """Batches in a stamped copy, which is one piece on disk."""
    own = bytearray(view)
    batches = []
    at = 0
    for header in headers:
        stamp(own, at, header.base_offset, header.leader_epoch)
        at += header.size_bytes
    stamped_copy = memoryview(own).toreadonly()
    at = 0
    for header in headers:
        piece = stamped_copy[at : at + header.size_bytes]
        batches.append(TailBatch(header.base_offset, header.next_offset, header.size_bytes, (piece,)))
        at += header.size_bytes
    return [stamped_copy], batches
