"""The file `checkpoints`: for each partition of a data directory, the state that a restart may start from and
must find."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.sealed_file import seal, unseal

__all__ = ["PartitionCheckpoint", "PartitionKey", "decode_checkpoints", "encode_checkpoints"]

# Topic id (16 bytes) and partition.
PartitionKey: TypeAlias = tuple[bytes, int]

_MAGIC: Final = b"HTCP"
_VERSION: Final = 2
_ENTRY: Final = struct.Struct("<16siqqqiqqIB")
_IS_CLEAN: Final = 1
_IS_SYNCED: Final = 2
_IS_DAMAGED: Final = 4


@dataclass(frozen=True, slots=True)
class PartitionCheckpoint:
    """The entry of one partition. Everything below the recovery point is on disk and was checked."""

    recovery_point: int = 0
    high_watermark: int = 0
    # The recorded start of the log; its first segment begins there or before.
    start_offset: int = 0
    latest_epoch: int = -1
    # Sizes of all segments and of the last one when this was written, and how many there were.
    size_bytes: int = 0
    active_size_bytes: int = 0
    segment_count: int = 0
    # The log was closed after this and nothing was appended since: it needs no recovery.
    is_clean: bool = False
    # Everything that was acknowledged was on disk before: flush=fsync was set, and not only since just now.
    is_synced: bool = False
    # Damage was found in it and is not mended yet. A clean start, which reads nothing, would not see it.
    is_damaged: bool = False

    @property
    def end_offset(self) -> int:
        """The end that the log must reach, whatever has happened since, except a truncation."""
        return max(self.recovery_point, self.high_watermark)


def encode_checkpoints(checkpoints: Mapping[PartitionKey, PartitionCheckpoint]) -> bytes:
    """The bytes of the file."""
    return seal(
        _MAGIC,
        _VERSION,
        b"".join(
            _ENTRY.pack(
                topic_id,
                partition,
                entry.recovery_point,
                entry.high_watermark,
                entry.start_offset,
                entry.latest_epoch,
                entry.size_bytes,
                entry.active_size_bytes,
                entry.segment_count,
                entry.is_clean * _IS_CLEAN | entry.is_synced * _IS_SYNCED | entry.is_damaged * _IS_DAMAGED,
            )
            for (topic_id, partition), entry in checkpoints.items()
        ),
    )


def decode_checkpoints(data: bytes) -> dict[PartitionKey, PartitionCheckpoint]:
    """Read the file. Raises CorruptFile."""
    contents = unseal(_MAGIC, _VERSION, data)
    if len(contents) % _ENTRY.size:
        raise CorruptFile(f"a checkpoint file has no {len(contents)} bytes")
    return {
        (topic_id, partition): PartitionCheckpoint(
            recovery_point, high_watermark, start_offset, latest_epoch, size_bytes, active_size_bytes,
            segment_count, is_clean=bool(flags & _IS_CLEAN), is_synced=bool(flags & _IS_SYNCED),
            is_damaged=bool(flags & _IS_DAMAGED),
        )
        for (
            topic_id, partition, recovery_point, high_watermark, start_offset, latest_epoch, size_bytes,
            active_size_bytes, segment_count, flags,
        ) in _ENTRY.iter_unpack(contents)
    }  # fmt: skip
