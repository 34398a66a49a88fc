"""Record batches for tests of what stores and carries them."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from hightide.batch.body import HEADERS_TYPE, SCHEMA, SCHEMA_WITH_HEADERS, TIMESTAMP_TYPE, encode
from hightide.batch.header import BatchHeader, Compression, check_from_producer, stamp

TOPIC_ID = bytes(range(16))
PARTITION = 3


@cache
def make_batch(
    record_count: int = 3,
    value: bytes = b"value",
    *,
    timestamps_us: tuple[int, ...] | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    compression: Compression = Compression.NONE,
    with_headers: bool = False,
    topic_id: bytes = TOPIC_ID,
    partition: int = PARTITION,
) -> bytes:
    """A batch as a producer sends it. `producer` is its id, epoch and base sequence."""
    times = timestamps_us if timestamps_us is not None else tuple(1_000 + at for at in range(record_count))
    columns = [
        pa.array([None if at % 2 else b"key" for at in range(record_count)], pa.binary()),
        pa.array([value] * record_count, pa.binary()),
        pa.array(times, TIMESTAMP_TYPE),
    ]
    if with_headers:
        columns.append(pa.array([[{"key": "k", "value": b"v"}]] * record_count, HEADERS_TYPE))
    return encode(
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS if with_headers else SCHEMA),
        topic_id=topic_id,
        partition=partition,
        compression=compression,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    ).to_bytes()


def headers_of(batches: bytes) -> tuple[BatchHeader, ...]:
    """The headers of batches that a leader took in."""
    return check_from_producer(batches, TOPIC_ID, PARTITION, 64 * 1024 * 1024)


def as_sent_by_leader(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """A batch as a follower receives it."""
    stamped = bytearray(batch)
    stamp(stamped, 0, base_offset, leader_epoch)
    return bytes(stamped)
