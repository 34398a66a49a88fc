"""The file `checkpoints`: for each partition of a data directory, what a restart may start from."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.sealed_file import seal, unseal

__all__ = ["PartitionCheckpoint", "PartitionKey", "decode_checkpoints", "encode_checkpoints"]

# Topic id (16 bytes) and partition.
PartitionKey: TypeAlias = tuple[bytes, int]

_MAGIC: Final = b"HTCP"
_VERSION: Final = 1
_ENTRY: Final = struct.Struct("<16siqqqB")


@dataclass(frozen=True, slots=True)
class PartitionCheckpoint:
    """One partition's. Everything below the recovery point is on disk and was checked."""

    recovery_point: int = 0
    high_watermark: int = 0
    # Size of the last segment when it was written.
    active_size_bytes: int = 0
    # The log was closed after this and nothing was appended since: it needs no recovery.
    is_clean: bool = False


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
                entry.active_size_bytes,
                entry.is_clean,
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
        (topic_id, partition): PartitionCheckpoint(recovery_point, high_watermark, size, bool(is_clean))
        for topic_id, partition, recovery_point, high_watermark, size, is_clean in _ENTRY.iter_unpack(
            contents
        )
    }
