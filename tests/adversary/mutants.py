"""Batches that one who knows the format has changed: each with the CRC that its bytes have now."""

import struct
from collections.abc import Iterator
from random import Random

import pyarrow as pa
from adversary.batches import sealed
from hightide.batch.body import HEADERS_TYPE, SCHEMA, SCHEMA_WITH_HEADERS, TIMESTAMP_TYPE, encode
from hightide.batch.header import HEADER_SIZE_BYTES, Compression

_NOW_US = 1_700_000_000_000_000
_FIELDS = {
    "partition": ("i", 40), "attributes": ("H", 44), "producer epoch": ("h", 46), "producer id": ("q", 48),
    "base sequence": ("i", 56), "record count": ("i", 60), "first timestamp": ("q", 64),
    "max timestamp": ("q", 72),
}  # fmt: skip
_WORDS = (0, 1, -1, 7, 2**15, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))


def originals(topic_id: bytes, partition: int) -> dict[str, bytes]:
    """Good batches of every shape: with and without headers, of each codec, with nulls and without."""
    made = {}
    for compression in Compression:
        for with_headers in (False, True):
            for record_count in (1, 40):
                name = f"{record_count} records, {compression.name}{', headers' if with_headers else ''}"
                made[name] = _original(topic_id, partition, compression, with_headers, record_count)
    return made


def _original(
    topic_id: bytes, partition: int, compression: Compression, with_headers: bool, record_count: int
) -> bytes:
    places = range(record_count)
    columns = [
        pa.array([None if at % 5 == 4 else b"key-%d" % at for at in places], pa.binary()),
        pa.array([None if at % 7 == 6 else b"value-%d " % at * 4 for at in places], pa.binary()),
        pa.array([_NOW_US + at for at in places], TIMESTAMP_TYPE),
    ]
    if with_headers:
        columns.append(pa.array([[{"key": "k", "value": b"v"}] * (at % 3) for at in places], HEADERS_TYPE))
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS if with_headers else SCHEMA)
    return encode(rows, topic_id=topic_id, partition=partition, compression=compression).to_bytes()


def mutants(original: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    """What was done, and what came of it: each header field at its bounds, each word of the body replaced,
    each byte of it flipped."""
    for name, (form, at) in _FIELDS.items():
        (value,) = struct.unpack_from(f"<{form}", original, at)
        for other in {*_WORDS, value + 1, value - 1, random.getrandbits(15)} - {value}:
            changed = bytearray(original)
            try:
                struct.pack_into(f"<{form}", changed, at, other)
            except struct.error:
                continue
            yield f"{name} {other}", sealed(changed)
    for at in range(HEADER_SIZE_BYTES, len(original) - 8, 8):
        changed = bytearray(original)
        word = random.choice(_WORDS)
        struct.pack_into("<q", changed, at, word)
        yield f"word at {at} {word}", sealed(changed)
    for at in range(HEADER_SIZE_BYTES, len(original), 4):
        changed = bytearray(original)
        changed[at + random.randrange(4) if at + 4 <= len(original) else at] ^= 1 << random.randrange(8)
        yield f"bit at {at}", sealed(changed)
