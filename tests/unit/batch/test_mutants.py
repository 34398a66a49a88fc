"""What a leader takes of batches that one who knows the format has changed, and what a reader then makes of
them: a batch that is taken and cannot be read stops everybody who comes to it."""

import re
import struct
from collections import Counter
from random import Random

import pytest
from adversary.batches import sealed
from adversary.mutants import mutants, originals
from hightide.batch.arrow_metadata import DECODED_SIZE_BYTES_MAX
from hightide.batch.body import decode
from hightide.batch.errors import BatchError, BatchTooLarge, InvalidBatch
from hightide.batch.header import Compression, check_from_producer
from stored_batches import PARTITION, TOPIC_ID, make_batch

_FIRST_TIMESTAMP_AT, _MAX_TIMESTAMP_AT = 64, 72
_MAX_BYTES = 1 << 20

# What the door cannot see without looking at each record, or decompressing: by what the reader says of it.
# Readers meet these with on_corrupt_batch.
LEFT = {
    "the bytes of a compressed buffer are not what it claims": re.compile(
        "decompress|ZSTD|LZ4|Lz4", re.IGNORECASE
    ),
    "the offsets within a column do not rise, or lie outside of it": re.compile("Offset invariant failure"),
    "names of headers are not UTF-8": re.compile("UTF8"),
    "another number of values is null than is said": re.compile("null_count value"),
    "a timestamp is not of the years 1970 to 9999": re.compile("the records have timestamps from"),
}


def taken(batch: bytes) -> bool:
    try:
        check_from_producer(batch, TOPIC_ID, PARTITION, _MAX_BYTES)
    except BatchError:
        return False
    return True


@pytest.mark.parametrize("original", originals(TOPIC_ID, PARTITION))
def test_what_a_leader_takes_is_read_but_for_the_classes_that_are_named(original: str) -> None:
    batch = originals(TOPIC_ID, PARTITION)[original]
    assert taken(batch)
    unnamed = []
    found: Counter[str] = Counter()
    for name, mutant in mutants(batch, Random(7)):
        if not taken(mutant):
            continue
        try:
            decode(mutant).to_pylist()
        except BatchError as error:
            kind = next((kind for kind, said in LEFT.items() if said.search(str(error))), None)
            if kind is None:
                unnamed.append((name, str(error)))
            else:
                found[kind] += 1
    assert unnamed == []
    if "NONE" in original:
        assert found["the bytes of a compressed buffer are not what it claims"] == 0


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_a_bomb_is_refused_at_the_door_with_both_sizes(compression: Compression) -> None:
    """Some bytes that a reader would have to give 300 MiB: no reader does."""
    bomb = make_batch(3_000, b"\0" * 100 * 1024, compression=compression)
    assert len(bomb) < 2_000_000
    with pytest.raises(
        BatchTooLarge, match=rf"{len(bomb)} bytes takes \d{{9}} bytes .* {DECODED_SIZE_BYTES_MAX}"
    ):
        check_from_producer(bomb, TOPIC_ID, PARTITION, 64 << 20)


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize(("first", "latest"), [(0, 1), (5, 10**15), (2_000, 2_000)])
def test_timestamps_of_the_header_that_are_not_those_of_the_records_keep_nobody_from_reading(
    compression: Compression, first: int, latest: int
) -> None:
    batch = bytearray(make_batch(3, compression=compression))
    struct.pack_into("<q", batch, _FIRST_TIMESTAMP_AT, first)
    struct.pack_into("<q", batch, _MAX_TIMESTAMP_AT, latest)
    lying = sealed(batch)
    assert taken(lying)
    assert decode(lying).equals(decode(make_batch(3, compression=compression)))


def test_timestamps_that_no_datetime_can_say_are_not_handed_out() -> None:
    batch = bytearray(make_batch(3, timestamps_us=(1_000, 2_000, 3_000)))
    at = bytes(batch).rindex(struct.pack("<q", 2_000))
    struct.pack_into("<q", batch, at, 2**62)
    with pytest.raises(InvalidBatch, match="may be from 0 to"):
        decode(sealed(batch))
