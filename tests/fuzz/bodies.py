"""Record batches of one who knows the format: lying headers, lying Arrow, other schemas; each is sealed with
the CRC of its bytes.

`adversary.mutants` takes each place of a batch in turn, for a test that must end. Here several changes meet
in one batch, drawn from a seeded `Random`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final

import pyarrow as pa
from adversary.batches import sealed
from adversary.mutants import originals
from hightide.batch.header import HEADER_SIZE_BYTES

_LENGTH_AT, _ATTRIBUTES_AT, _COUNT_AT = 8, 44, 60
_HEADER_FIELDS: Final = (
    *(("q", 0), ("i", 8), ("i", 12), ("B", 16), ("B", 17), ("i", 40), ("H", 44), ("h", 46), ("q", 48)),
    *(("i", 56), ("i", 60), ("q", 64), ("q", 72)),
)
_EDGES: Final = (0, 1, -1, 2, 7, 255, 2**15, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_STREAM_PREFIX: Final = struct.Struct("<Ii")


def batch(chance: Random, topic_id: bytes, partition: int) -> bytes:
    """A batch for a partition: one in ten is good, the others lie."""
    name = chance.choice(sorted(_originals(topic_id, partition)))
    made = bytearray(_originals(topic_id, partition)[name])
    if chance.random() < 0.1:
        return bytes(made)
    for _ in range(chance.choice((1, 1, 2, 4))):
        chance.choice(_CHANGES)(chance, made)
    if chance.random() < 0.9:
        struct.pack_into("<i", made, _LENGTH_AT, len(made) - 12)
    return sealed(made) if chance.random() < 0.97 else bytes(made)


@cache
def _originals(topic_id: bytes, partition: int) -> dict[str, bytes]:
    return originals(topic_id, partition)


def _header_field(chance: Random, made: bytearray) -> None:
    form, at = chance.choice(_HEADER_FIELDS)
    (value,) = struct.unpack_from(f"<{form}", made, at)
    size_bits = 8 * struct.calcsize(f"<{form}")
    other = chance.choice((*_EDGES, value + 1, value - 1, chance.getrandbits(size_bits)))
    made[at : at + size_bits // 8] = (other & (2**size_bits - 1)).to_bytes(size_bits // 8, "little")


def _body_word(chance: Random, made: bytearray) -> None:
    size = chance.choice((2, 4, 8))
    if (places := len(made) - HEADER_SIZE_BYTES - size) <= 0:
        return
    at = HEADER_SIZE_BYTES + chance.randrange(places) // size * size
    value = int.from_bytes(made[at : at + size], "little")
    elsewhere = HEADER_SIZE_BYTES + chance.randrange(places)
    copied = int.from_bytes(made[elsewhere : elsewhere + size], "little")
    other = chance.choice((*_EDGES, value + 1, value - 1, value * 2, copied))
    made[at : at + size] = (other & (2 ** (8 * size) - 1)).to_bytes(size, "little")


def _bit(chance: Random, made: bytearray) -> None:
    if len(made) > HEADER_SIZE_BYTES:
        made[chance.randrange(HEADER_SIZE_BYTES, len(made))] ^= 1 << chance.randrange(8)


def _shorter(chance: Random, made: bytearray) -> None:
    del made[chance.randrange(HEADER_SIZE_BYTES, len(made) + 1) :]


def _longer(chance: Random, made: bytearray) -> None:
    made.extend(chance.randbytes(8 * chance.randrange(1, 30)))


def _other_rows(chance: Random, made: bytearray) -> None:
    """The body of an Arrow batch with columns of its own: other types, dictionaries, nested ones, none."""
    rows = chance.choice(_foreign_rows())
    made[HEADER_SIZE_BYTES:] = _body_of(rows, chance.choice((None, "lz4", "zstd")))
    struct.pack_into("<i", made, _COUNT_AT, rows.num_rows)
    struct.pack_into("<H", made, _ATTRIBUTES_AT, chance.choice((0, 1, 2, 4, 5, 6)))


def _lying_sizes(chance: Random, made: bytearray) -> None:
    """In a compressed body each buffer begins with its size when decompressed."""
    for at in range(HEADER_SIZE_BYTES, len(made) - 8, 8):
        (size,) = struct.unpack_from("<q", made, at)
        if 0 < size < 5_000 and chance.random() < 0.3:
            struct.pack_into("<q", made, at, chance.choice((2**62, 2**31, 2**28, size * 1_000, -1, -2, 0)))


_CHANGES: Final[tuple[Callable[[Random, bytearray], None], ...]] = (
    *(_header_field, _header_field, _body_word, _body_word, _body_word, _bit, _bit),
    *(_shorter, _longer, _other_rows, _lying_sizes),
)


def _body_of(rows: Any, codec: str | None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(rows)
    stream = bytes(sink.getvalue())
    _, schema_size = _STREAM_PREFIX.unpack_from(stream, 0)
    return stream[_STREAM_PREFIX.size + schema_size :]


@cache
def _foreign_rows() -> tuple[Any, ...]:
    deep: Any = pa.array([1, 2, 3], pa.int8())
    for _ in range(30):
        deep = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), deep)
    words = pa.array([b"a", b"b", None], pa.binary())
    columns: tuple[list[Any], ...] = (
        [words.dictionary_encode(), words, words],
        [pa.array(["a", "b", None]), pa.array(["x" * 9_999] * 3), pa.array([1.0, float("nan"), None])],
        [pa.array([b"a", b"b", b"c"], pa.large_binary()), words, pa.array([1, 2, 3], pa.int64())],
        [deep, deep, deep],
        [pa.nulls(3), pa.nulls(3), pa.nulls(3)],
        [words] * 300,
        [pa.array([], pa.binary())] * 3,
        [
            pa.array([{"key": "k"}] * 3),
            pa.array([[("k", b"v")]] * 3, pa.map_(pa.string(), pa.binary())),
            words,
        ],
        [pa.array([b"abcd"] * 3, pa.binary(4)), pa.array([b"v"] * 3, pa.binary_view()), words],
        [pa.array([b""] * 100_000, pa.binary()), pa.nulls(100_000, pa.binary()), pa.array(range(100_000))],
    )
    return tuple(
        pa.RecordBatch.from_arrays(each, names=[f"c{number}" for number in range(len(each))])
        for each in columns
    )
