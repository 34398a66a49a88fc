"""Record batches, good and broken in each way that a header or a body can lie."""

import struct
from collections.abc import Callable, Sequence

import pyarrow as pa
from hightide.batch.body import SCHEMA, TIMESTAMP_TYPE, encode
from hightide.batch.checksum import crc32c

_LENGTH_AT, _MAGIC_AT, _RESERVED_AT, _CRC_AT, _TOPIC_ID_AT = 8, 16, 17, 20, 24
_PARTITION_AT, _ATTRIBUTES_AT, _PRODUCER_EPOCH_AT, _PRODUCER_ID_AT = 40, 44, 46, 48
_SEQUENCE_AT, _COUNT_AT, _FIRST_TIMESTAMP_AT, _MAX_TIMESTAMP_AT, _BODY_AT = 56, 60, 64, 72, 80
_NOW_US = 1_700_000_000_000_000


def good_batch(
    topic_id: bytes,
    partition: int,
    values: Sequence[bytes] = (b"good",),
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch that a broker must take."""
    columns = pa.RecordBatch.from_arrays(
        [
            pa.array([b"key"] * len(values), pa.binary()),
            pa.array(list(values), pa.binary()),
            pa.array([_NOW_US] * len(values), TIMESTAMP_TYPE),
        ],
        schema=SCHEMA,
    )
    return encode(
        columns,
        topic_id=topic_id,
        partition=partition,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    ).to_bytes()


def sealed(batch: bytearray) -> bytes:
    """The batch with the CRC that its bytes have now: a lie told by one who knows the format."""
    struct.pack_into("<I", batch, _CRC_AT, crc32c(memoryview(batch)[_TOPIC_ID_AT:]))
    return bytes(batch)


def _set(form: str, at: int, value: int | bytes) -> Callable[[bytearray], bytes]:
    def change(batch: bytearray) -> bytes:
        struct.pack_into(f"<{form}", batch, at, value)
        return sealed(batch)

    return change


def _unsealed(form: str, at: int, value: int) -> Callable[[bytearray], bytes]:
    def change(batch: bytearray) -> bytes:
        struct.pack_into(f"<{form}", batch, at, value)
        return bytes(batch)

    return change


def _flip(at: int) -> Callable[[bytearray], bytes]:
    def change(batch: bytearray) -> bytes:
        batch[at] ^= 0x40
        return bytes(batch)

    return change


def _longer_by(size_bytes: int) -> Callable[[bytearray], bytes]:
    def change(batch: bytearray) -> bytes:
        struct.pack_into("<i", batch, _LENGTH_AT, len(batch) - 12 + size_bytes)
        return bytes(batch)

    return change


def _shorter_by_8_and_sealed(batch: bytearray) -> bytes:
    """The first part is sealed as if it were the whole; the rest then stands behind the batch."""
    struct.pack_into("<i", batch, _LENGTH_AT, len(batch) - 12 - 8)
    struct.pack_into("<I", batch, _CRC_AT, crc32c(memoryview(batch)[_TOPIC_ID_AT:-8]))
    return bytes(batch)


def _body_of(body: bytes) -> Callable[[bytearray], bytes]:
    def change(batch: bytearray) -> bytes:
        changed = batch[:_BODY_AT] + body
        struct.pack_into("<i", changed, _LENGTH_AT, len(changed) - 12)
        return sealed(changed)

    return change


def _body_cut_in_half(batch: bytearray) -> bytes:
    return _body_of(bytes(batch[_BODY_AT : _BODY_AT + (len(batch) - _BODY_AT) // 2]))(batch)


def _later_version(batch: bytearray) -> bytes:
    return _unsealed("B", _MAGIC_AT, 2)(bytearray(_body_of(b"\2" * 400)(batch)))


def _good_then_flipped(batch: bytearray) -> bytes:
    return bytes(batch) + _flip(-1)(bytearray(batch))


CORRUPT, INVALID, MAGIC = "CORRUPT_BATCH", "INVALID_BATCH", "UNSUPPORTED_MAGIC"

# What is done to a good batch, and the codes that are a right answer to it.
BROKEN: dict[str, tuple[Callable[[bytearray], bytes], set[str]]] = {
    "a flipped bit in the last byte": (_flip(-1), {CORRUPT}),
    "a flipped bit in the topic id": (_flip(_TOPIC_ID_AT), {CORRUPT}),
    "a flipped bit in the CRC": (_flip(_CRC_AT), {CORRUPT}),
    "a length beyond the end": (_longer_by(8), {CORRUPT}),
    "a length far beyond the end": (_unsealed("i", _LENGTH_AT, 2**31 - 1), {CORRUPT}),
    "a length that ends too soon": (_longer_by(-8), {CORRUPT}),
    "a length that ends too soon, sealed": (_shorter_by_8_and_sealed, {CORRUPT, INVALID}),
    "a length of zero": (_unsealed("i", _LENGTH_AT, 0), {CORRUPT}),
    "a negative length": (_unsealed("i", _LENGTH_AT, -(2**31)), {CORRUPT}),
    "one record more than there are": (_set("i", _COUNT_AT, 2), {INVALID}),
    "two billion records": (_set("i", _COUNT_AT, 2**31 - 1), {INVALID}),
    "no records": (_set("i", _COUNT_AT, 0), {CORRUPT, INVALID}),
    "a negative count": (_set("i", _COUNT_AT, -1), {CORRUPT, INVALID}),
    "magic 0": (_unsealed("B", _MAGIC_AT, 0), {CORRUPT}),
    "magic 2 before a batch of magic 1": (_unsealed("B", _MAGIC_AT, 2), {CORRUPT}),
    "magic 255": (_unsealed("B", _MAGIC_AT, 255), {CORRUPT}),
    "a whole batch of a later version": (_later_version, {MAGIC}),
    "reserved bytes in use": (_unsealed("B", _RESERVED_AT, 1), {CORRUPT, INVALID}),
    "another topic's id": (_set("16s", _TOPIC_ID_AT, b"\x07" * 16), {INVALID}),
    "another partition": (_set("i", _PARTITION_AT, 1), {INVALID}),
    "a negative partition": (_set("i", _PARTITION_AT, -1), {INVALID}),
    "unknown attributes": (_set("H", _ATTRIBUTES_AT, 0x8000), {INVALID}),
    "all attributes": (_set("H", _ATTRIBUTES_AT, 0xFFFF), {INVALID}),
    "an unknown codec": (_set("H", _ATTRIBUTES_AT, 3), {INVALID}),
    "a codec that the body does not use": (_set("H", _ATTRIBUTES_AT, 1), {INVALID}),
    "headers that the body does not have": (_set("H", _ATTRIBUTES_AT, 4), {INVALID}),
    "a producer id without an epoch": (_set("q", _PRODUCER_ID_AT, 5), {INVALID}),
    "a producer epoch without an id": (_set("h", _PRODUCER_EPOCH_AT, 5), {INVALID}),
    "a sequence without a producer": (_set("i", _SEQUENCE_AT, 5), {INVALID}),
    "a negative producer id": (_set("q", _PRODUCER_ID_AT, -(2**63)), {INVALID}),
    "a timestamp before 1970": (_set("q", _FIRST_TIMESTAMP_AT, -1), {INVALID}),
    "a timestamp at the end of time": (_set("q", _MAX_TIMESTAMP_AT, 2**63 - 1), {INVALID}),
    "a max timestamp before the first": (_set("q", _MAX_TIMESTAMP_AT, 1), {INVALID}),
    "no body": (_body_of(b""), {INVALID, CORRUPT}),
    "a body of zeros": (_body_of(b"\0" * 400), {INVALID}),
    "a body of 0xff": (_body_of(b"\xff" * 400), {INVALID}),
    "half a body": (_body_cut_in_half, {INVALID}),
    "half a batch": (lambda batch: bytes(batch[: len(batch) // 2]), {CORRUPT}),
    "half a header": (lambda batch: bytes(batch[:40]), {CORRUPT}),
    "one byte": (lambda batch: b"\x01", {CORRUPT}),
    "no bytes": (lambda batch: b"", {INVALID}),
    "zeros": (lambda batch: b"\0" * 500, {CORRUPT}),
    "text": (lambda batch: b"this is no batch at all, " * 20, {CORRUPT}),
    "a good batch with a byte behind it": (lambda batch: bytes(batch) + b"\0", {CORRUPT}),
    "a good batch with a bad one behind it": (_good_then_flipped, {CORRUPT}),
}


def lying_lengths(batch: bytearray) -> bytes:
    """Whose body has the right layout, but value offsets that run past the end of their buffer in between;
    sealed. A leader takes it, and no reader can open it."""
    body = memoryview(batch)[_BODY_AT:]
    # The offsets of two values of one byte each, 0, 1, 2 as int32.
    pattern = struct.pack("<iii", 0, 1, 2)
    at = bytes(body).rindex(pattern)
    struct.pack_into("<iii", batch, _BODY_AT + at, 0, 2**30, 2)
    return sealed(batch)


def poison(topic_id: bytes, partition: int) -> bytes:
    """A batch of two records that a leader takes, and no reader can open."""
    return lying_lengths(bytearray(good_batch(topic_id, partition, [b"a", b"b"])))
