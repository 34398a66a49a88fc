"""The record batches of a simulation. Each record has a number for a value, no two the same one."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa
from hightide.batch.body import SCHEMA, TIMESTAMP_TYPE, decode, encode
from hightide.batch.header import Buffer
from sim.topics.messages import Key

_CRC: Final = struct.Struct("<I")
_CRC_AT: Final = 20
_TIMES: Final = pa.array([1_000], TIMESTAMP_TYPE)


def make_batch(key: Key, value: int, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A batch as a producer sends it. `producer` is its id, epoch and base sequence."""
    column = pa.array([str(value).encode()], pa.binary())
    return encode(
        pa.RecordBatch.from_arrays([column, column, _TIMES], schema=SCHEMA),
        topic_id=key[0],
        partition=key[1],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    ).to_bytes()


def crc_of(batch: Buffer) -> int:
    """By which it is known wherever it is."""
    (crc,) = _CRC.unpack_from(batch, _CRC_AT)
    assert isinstance(crc, int)
    return crc


def values_in(batch: Buffer) -> tuple[int, ...]:
    """Of its records."""
    return tuple(int(value) for value in decode(batch).column("value").to_pylist())
