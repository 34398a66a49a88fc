"""What FetchRecords makes of batches: records from an offset on, and an error at what nobody can open, unless
it is told to go on behind it."""

from __future__ import annotations

import pytest
from adversary.batches import good_batch, poison
from hightide.batch.errors import CorruptBatch
from hightide.batch.header import check_from_producer, stamp
from hightide_broker.data.plain_records import OpenedRecords, UnreadableBatch, open_batches
from stored_batches import TOPIC_ID

ALL = 100


def stored(base_offset: int, batch: bytes | bytearray) -> bytes:
    """As a leader that has taken it stores it."""
    sent = bytearray(batch)
    check_from_producer(sent, TOPIC_ID, 0, 1 << 20)
    stamp(sent, 0, base_offset, 1)
    return bytes(sent)


def good(base_offset: int, *values: bytes) -> bytes:
    return stored(base_offset, good_batch(TOPIC_ID, 0, list(values)))


def poison_at(base_offset: int) -> bytes:
    """Two records that nobody can read."""
    return stored(base_offset, poison(TOPIC_ID, 0))


def changed(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


BEHIND = good(0, b"a", b"b") + poison_at(2) + good(4, b"c")


def told(found: OpenedRecords) -> tuple[list[tuple[int, bytes | None]], int]:
    return [(offset, record.value) for offset, record in found.records], found.next_offset


def test_records_are_read_from_the_offset_on_and_up_to_the_limit() -> None:
    batches = good(0, b"a", b"b") + good(2, b"c", b"d")
    assert told(open_batches(batches, 1, ALL, False)) == ([(1, b"b"), (2, b"c"), (3, b"d")], 4)
    assert told(open_batches(batches, 1, 2, False)) == ([(1, b"b"), (2, b"c")], 3)
    assert told(open_batches(b"", 7, ALL, False)) == ([], 7)


def test_what_lies_in_front_of_a_batch_that_nobody_can_open_is_given_before_it_is_an_error() -> None:
    assert told(open_batches(BEHIND, 0, ALL, False)) == ([(0, b"a"), (1, b"b")], 2)
    with pytest.raises(UnreadableBatch, match=r"offsets 2 to 3 cannot be read.* fetch from 4") as raised:
        open_batches(poison_at(2) + good(4, b"c"), 2, ALL, False)
    assert raised.value.facts == {"base_offset": "2", "next_offset": "4"}


def test_who_wants_it_left_out_reads_on_behind_it_and_is_told_how_much_it_was() -> None:
    found = open_batches(BEHIND, 0, ALL, True)
    assert told(found) == ([(0, b"a"), (1, b"b"), (4, b"c")], 5)
    assert (found.skipped_batch_count, found.skipped_record_count) == (1, 2)


def test_only_the_records_from_the_offset_on_count_as_left_out() -> None:
    found = open_batches(poison_at(2), 3, ALL, True)
    assert told(found) == ([], 4), "it goes on behind what is left out, also where nothing follows"
    assert (found.skipped_batch_count, found.skipped_record_count) == (1, 1)


def test_what_lies_behind_the_last_record_that_is_given_is_not_counted() -> None:
    found = open_batches(BEHIND, 0, 2, True)
    assert told(found) == ([(0, b"a"), (1, b"b")], 2)
    assert found.skipped_batch_count == 0


@pytest.mark.parametrize("skips_corrupt", [False, True])
def test_a_batch_whose_bytes_have_changed_is_never_left_out(skips_corrupt: bool) -> None:
    """It was good when it was written, and another replica may hold it whole."""
    batches = good(0, b"a") + changed(good(1, b"b")) + good(2, b"c")
    assert told(open_batches(batches, 0, ALL, skips_corrupt)) == ([(0, b"a")], 1)
    with pytest.raises(CorruptBatch, match="CRC"):
        open_batches(changed(good(1, b"b")) + good(2, b"c"), 1, ALL, skips_corrupt)
