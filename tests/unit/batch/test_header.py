"""Reading, stamping and checking batches from outside."""

from __future__ import annotations

import struct
import subprocess
import sys
from contextlib import suppress

import pytest
from hightide.batch import header as subject
from hightide.batch.checksum import crc32c
from hightide.batch.errors import BatchError, BatchTooLarge, CorruptBatch, InvalidBatch, UnsupportedMagic
from hightide.batch.header import Compression, check_from_producer, iterate, parse, stamp, verify_crc
from hightide.v1.errors_pb2 import ErrorCode
from hypothesis import given
from hypothesis import strategies as st
from stored_batches import PARTITION, TOPIC_ID, headers_of, make_batch

BATCH = make_batch(3)


def check(batch: bytes, max_bytes: int = 1 << 20) -> tuple[subject.BatchHeader, ...]:
    return check_from_producer(batch, TOPIC_ID, PARTITION, max_bytes)


def with_valid_crc(batch: bytes | bytearray) -> bytes:
    """The batch as a producer that lies would send it."""
    patched = bytearray(batch)
    struct.pack_into("<I", patched, 20, crc32c(memoryview(patched)[24:]))
    return bytes(patched)


def patched(at: int, layout: str, value: int) -> bytes:
    batch = bytearray(BATCH)
    struct.pack_into(layout, batch, at, value)
    return with_valid_crc(batch)


def test_a_header_is_where_the_specification_says() -> None:
    (header,) = headers_of(make_batch(2, producer=(7, 1, 40)))
    packed = header.pack()
    assert struct.unpack_from("<i", packed, 8) == (header.size_bytes - 12,)
    assert packed[16] == 1
    assert packed[24:40] == TOPIC_ID
    assert struct.unpack_from("<iHhqii", packed, 40) == (PARTITION, 0, 1, 7, 40, 2)
    assert struct.unpack_from("<qq", packed, 64) == (1_000, 1_001)
    assert parse(packed) == header


def test_stamping_changes_neither_the_crc_nor_what_it_covers() -> None:
    batch = bytearray(BATCH)
    stamp(batch, 0, 1234, 5)
    header = parse(batch)
    verify_crc(batch, 0, header)
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (1234, 5, 1237)
    assert batch[16:] == BATCH[16:]


def later_version(magic: int = 2, crc: int | None = None) -> bytes:
    """A batch of which this version knows the first 24 bytes and what its CRC covers."""
    rest = bytes(range(188))
    first = struct.pack("<qiiB3s", 0, 12 + len(rest), -1, magic, b"\0\0\0")
    return first + struct.pack("<I", crc32c(rest) if crc is None else crc) + rest


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("with_headers", [False, True])
def test_what_the_encoder_makes_passes_the_check(compression: Compression, with_headers: bool) -> None:
    batch = make_batch(5, b"x" * 500, compression=compression, with_headers=with_headers)
    (header,) = check(batch + batch)[1:]
    assert header.compression is compression
    assert header.has_headers is with_headers
    assert header.record_count == 5


def test_several_batches_are_found_one_behind_the_other() -> None:
    batches = make_batch(1) + make_batch(2) + make_batch(3)
    assert [header.record_count for _, header in iterate(batches)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        pytest.param(b"", InvalidBatch, id="no batch"),
        pytest.param(BATCH[:50], CorruptBatch, id="half a header"),
        pytest.param(BATCH[:-1], CorruptBatch, id="length beyond the end"),
        pytest.param(BATCH + b"\0", CorruptBatch, id="a byte too many"),
        pytest.param(patched(8, "<i", -5), CorruptBatch, id="negative length"),
        pytest.param(patched(8, "<i", 0), CorruptBatch, id="length zero"),
        pytest.param(patched(8, "<i", 2**31 - 1), CorruptBatch, id="length of 2 GiB"),
        pytest.param(patched(16, "<B", 0), CorruptBatch, id="magic 0"),
        pytest.param(patched(16, "<B", 2), CorruptBatch, id="magic 2 and all else of magic 1"),
        pytest.param(patched(16, "<B", 255), CorruptBatch, id="magic 255 and all else of magic 1"),
        pytest.param(later_version(), UnsupportedMagic, id="a whole batch of magic 2"),
        pytest.param(later_version()[:-1], CorruptBatch, id="magic 2 and cut off"),
        pytest.param(later_version(crc=7), CorruptBatch, id="magic 2 and another CRC"),
        pytest.param(later_version(magic=0), CorruptBatch, id="a whole batch of magic 0"),
        pytest.param(patched(17, "<B", 1), CorruptBatch, id="reserved bytes"),
        pytest.param(patched(24, "<B", 99), InvalidBatch, id="another topic id"),
        pytest.param(patched(40, "<i", 4), InvalidBatch, id="another partition"),
        pytest.param(patched(44, "<H", 0b1000), InvalidBatch, id="unknown attribute"),
        pytest.param(patched(44, "<H", 3), InvalidBatch, id="unknown codec"),
        pytest.param(patched(44, "<H", 1), InvalidBatch, id="codec that the body has not"),
        pytest.param(patched(44, "<H", 4), InvalidBatch, id="headers that the body has not"),
        pytest.param(patched(46, "<h", 0), InvalidBatch, id="producer epoch without producer"),
        pytest.param(patched(48, "<q", 5), InvalidBatch, id="producer without epoch and sequence"),
        pytest.param(patched(48, "<q", -2), InvalidBatch, id="negative producer"),
        pytest.param(patched(60, "<i", 0), CorruptBatch, id="no records"),
        pytest.param(patched(60, "<i", -1), CorruptBatch, id="negative record count"),
        pytest.param(patched(60, "<i", 4), InvalidBatch, id="a record too many"),
        pytest.param(patched(60, "<i", 2**31 - 1), InvalidBatch, id="2^31 records"),
        pytest.param(patched(64, "<q", -1), InvalidBatch, id="negative timestamp"),
        pytest.param(patched(64, "<q", -(2**63)), InvalidBatch, id="least timestamp"),
        pytest.param(patched(72, "<q", 2**63 - 1), InvalidBatch, id="largest timestamp"),
        pytest.param(patched(72, "<q", 999), InvalidBatch, id="max timestamp before the first"),
    ],
)
def test_a_batch_that_lies_is_refused(batch: bytes, error: type[BatchError]) -> None:
    with pytest.raises(error):
        check(batch)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_of_the_magic_is_damage_and_no_later_version(bit: int) -> None:
    with pytest.raises(CorruptBatch, match=r"w(as|ere) changed"):
        check(patched(16, "<B", 1 ^ (1 << bit)))


@pytest.mark.parametrize("bit", range(31))
def test_a_flipped_bit_of_a_length_is_damage_and_no_later_version(bit: int) -> None:
    """By it one batch leads to the next, so that the one behind it is looked for where none is."""
    batches = bytearray(make_batch(3) + make_batch(3) + make_batch(3))
    batches[8 + bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptBatch):
        list(iterate(bytes(batches)))


def test_a_changed_byte_under_the_crc_is_found() -> None:
    for at in (24, 60, 79, 80, len(BATCH) - 1):
        batch = bytearray(BATCH)
        batch[at] ^= 1
        with pytest.raises(BatchError):
            check(bytes(batch))


def test_each_batch_must_keep_to_the_size_limit() -> None:
    check(BATCH + BATCH, max_bytes=len(BATCH))
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes"):
        check(BATCH, max_bytes=len(BATCH) - 1)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_with_a_batch_error(data: bytes) -> None:
    with pytest.raises(BatchError):
        check(data)


@given(st.integers(24, len(BATCH) - 1), st.binary(min_size=1, max_size=16))
def test_a_damaged_body_with_a_valid_crc_is_refused_or_harmless(at: int, damage: bytes) -> None:
    batch = bytearray(BATCH)
    batch[at : at + len(damage)] = damage[: len(batch) - at]
    with suppress(BatchError):
        (header,) = check(with_valid_crc(batch))
        assert header.record_count == 3


@pytest.mark.parametrize("error", [CorruptBatch, InvalidBatch, UnsupportedMagic, BatchTooLarge])
def test_every_batch_error_has_a_code(error: type[BatchError]) -> None:
    assert (
        ErrorCode.Name(error.code).removeprefix("ERROR_CODE_").replace("_", "").lower()
        == error.__name__.lower()
    )


def test_the_header_needs_neither_pyarrow_nor_grpc() -> None:
    program = (
        "import sys, hightide.batch.header, hightide.batch.wire;"
        "sys.exit(any(name in sys.modules for name in ('pyarrow', 'grpc', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
