"""A batch that no reader can open fails its reader, or is left out and counted, as on_corrupt_batch says."""

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from adversary.batches import poison
from hightide.batch import body
from hightide.batch.header import check_from_producer, stamp
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.consuming.corrupt_batches import SkippedBatches
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.fetched_records import RecordsInDelivery, gather
from hightide.consuming.range_core import RangeReadSettings
from hightide.errors import CorruptBatchError, InvalidArgumentError, UnreadableBatchError
from hightide.transport.notices import log_notice
from unit.sdk.consumer_bench import P0, ConsumerBench, batch, offsets
from unit.sdk.producer_bench import TOPIC_ID


def poison_at(base_offset: int) -> bytes:
    """Two records that a leader has taken."""
    sent = bytearray(poison(TOPIC_ID, 0))
    check_from_producer(sent, TOPIC_ID, 0, 1 << 20)
    stamp(sent, 0, base_offset, 1)
    return bytes(sent)


def fetched(batches: Sequence[bytes], **settings: Any) -> tuple[ConsumerBench, RecordsInDelivery]:
    bench = ConsumerBench(**settings).started_at(0)
    bench.answer(bench.fetch(), *batches)
    return bench, RecordsInDelivery(bench.core, log_notice)


@pytest.mark.parametrize("second", [batch(7, 2), batch(2, 4)], ids=["leaves a gap", "overlaps"])
def test_a_batch_that_does_not_follow_on_the_one_in_front_is_not_taken(second: bytes) -> None:
    """The offset is stamped by the leader, outside of the CRC, which does not tell that a disk changed it."""
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), batch(0, 3), second)
    assert offsets(bench.chunks()) == [(0, 3)]
    assert bench.fetch().entries[0].fetch_offset == 3


@pytest.mark.parametrize("only", [batch(13, 2), batch(2, 4)], ids=["begins later", "ends before"])
def test_an_answer_without_the_offset_that_was_fetched_is_an_error_that_says_what_came(only: bytes) -> None:
    bench = ConsumerBench().started_at(10)
    bench.answer(bench.fetch(), only)
    with pytest.raises(CorruptBatchError, match=r"at or after offset 10 .* the offsets .*at b1:1"):
        bench.core.raise_errors(bench.now_ms)


def test_a_batch_of_an_earlier_leader_epoch_than_the_one_in_front_is_not_taken_either() -> None:
    bench = ConsumerBench().started_at(0)
    late = bytearray(batch(3, 2))
    stamp(late, 0, 3, 0)
    bench.answer(bench.fetch(), batch(0, 3), bytes(late))
    assert offsets(bench.chunks()) == [(0, 3)]


def begin(bench: ConsumerBench, in_delivery: RecordsInDelivery) -> FetchedBatch:
    chunk = bench.core.next_chunk()
    assert chunk is not None
    in_delivery.begin(chunk)
    return chunk


def test_it_fails_its_reader_unless_told_otherwise_and_says_where_to_seek() -> None:
    bench, in_delivery = fetched([poison_at(0), batch(2, 3)])
    with pytest.raises(UnreadableBatchError) as raised:
        begin(bench, in_delivery)
    assert "the batch of the offsets 0 to 1 of flights-0 cannot be read" in str(raised.value)
    assert "seek to 2" in str(raised.value)
    assert (raised.value.topic, raised.value.partition, raised.value.next_offset) == ("flights", 0, 2)


def test_told_to_skip_it_is_left_out_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    bench, in_delivery = fetched([poison_at(0), batch(2, 3)], on_corrupt_batch="skip")
    with caplog.at_level(logging.WARNING):
        begin(bench, in_delivery)
    assert not in_delivery.has_records
    assert len(caplog.messages) == 1
    assert "offsets 0 to 1 of flights-0" in caplog.text
    in_delivery.settle()
    assert bench.core.positions[P0].position == 2
    begin(bench, in_delivery)
    assert [record.offset for record in in_delivery.take(10)] == [2, 3, 4]
    assert in_delivery.corrupt.skipped == {P0: SkippedBatches(1, 2)}


def test_only_the_records_that_were_wanted_count() -> None:
    bench = ConsumerBench(on_corrupt_batch="skip").started_at(1)
    bench.answer(bench.fetch(), poison_at(0))
    in_delivery = RecordsInDelivery(bench.core, log_notice)
    begin(bench, in_delivery)
    in_delivery.settle()
    assert bench.core.positions[P0].position == 2
    assert in_delivery.corrupt.skipped == {P0: SkippedBatches(1, 1)}


def test_what_was_left_out_is_not_put_back_by_a_seek_elsewhere() -> None:
    bench, in_delivery = fetched([poison_at(0), batch(2, 3)], on_corrupt_batch="skip")
    begin(bench, in_delivery)
    in_delivery.give_up()
    assert offsets(bench.chunks()) == [(2, 5)]


def test_as_arrow_it_is_left_out_of_what_is_gathered() -> None:
    bench, in_delivery = fetched([batch(0, 2), poison_at(2), batch(4, 2)], on_corrupt_batch="skip")
    rows, rest = in_delivery.as_arrow(gather(bench.core))
    assert rows.column("offset").to_pylist() == [0, 1, 4, 5]
    assert rest == []


def test_as_arrow_what_comes_before_it_is_handed_out_first() -> None:
    """Else whoever seeks past it, as the error says, would never see the records before it."""
    bench, in_delivery = fetched([batch(0, 2), poison_at(2), batch(4, 2)])
    rows, rest = in_delivery.as_arrow(gather(bench.core))
    assert rows.column("offset").to_pylist() == [0, 1]
    assert offsets(rest) == [(2, 4), (4, 6)]
    with pytest.raises(UnreadableBatchError):
        in_delivery.as_arrow(rest)


def test_bytes_that_changed_are_never_left_out() -> None:
    """They were good when they were written: another replica may hold them whole."""
    damaged = bytearray(poison_at(0))
    damaged[-1] ^= 1
    bench, in_delivery = fetched([bytes(damaged)], on_corrupt_batch="skip", check_crcs=False)
    with pytest.raises(CorruptBatchError, match="another replica may hold it") as raised:
        begin(bench, in_delivery)
    assert not isinstance(raised.value, UnreadableBatchError)
    assert in_delivery.corrupt.skipped == {}


def test_what_comes_before_changed_bytes_in_an_answer_is_handed_out() -> None:
    damaged = bytearray(batch(5, 5))
    damaged[-1] ^= 1
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), batch(0, 5), bytes(damaged))
    assert offsets(bench.chunks()) == [(0, 5)]
    bench.core.raise_errors(bench.now_ms)
    bench.answer(bench.fetch(), bytes(damaged))
    with pytest.raises(CorruptBatchError, match=r"at or after offset 5 .*CRC"):
        bench.core.raise_errors(bench.now_ms)


@pytest.mark.parametrize("settings", [ConsumerSettings, RangeReadSettings])
def test_another_policy_is_refused(settings: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="on_corrupt_batch is 'shrug'"):
        settings(on_corrupt_batch="shrug")


def with_headers(*headers: list[dict[str, str | bytes | None] | None]) -> bytes:
    """Records from offset 0 on with these headers, that a leader has taken."""
    count = len(headers)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([None] * count, pa.binary()),
            pa.array([b"v"] * count, pa.binary()),
            pa.array(range(count), pa.int64()).view(body.TIMESTAMP_TYPE),
            pa.array(headers, body.HEADERS_TYPE),
        ],
        schema=body.SCHEMA_WITH_HEADERS,
    )
    sent = bytearray(body.encode(rows, topic_id=TOPIC_ID, partition=0).to_bytes())
    check_from_producer(sent, TOPIC_ID, 0, 1 << 20)
    stamp(sent, 0, 0, 1)
    return bytes(sent)


def test_a_header_without_a_name_makes_a_batch_that_no_reader_can_open() -> None:
    """It came out as a record whose header had None for the name that its type promises."""
    nameless = with_headers([{"key": "a", "value": b"1"}], [{"key": None, "value": b"2"}])
    bench, in_delivery = fetched([nameless])
    with pytest.raises(UnreadableBatchError, match="a header without a name") as found:
        begin(bench, in_delivery)
    assert found.value.next_offset == 2


def test_a_header_without_a_value_is_read_and_one_that_is_missing_altogether_is_passed_over() -> None:
    bench, in_delivery = fetched([with_headers([{"key": "a", "value": None}, None])])
    begin(bench, in_delivery)
    (record,) = in_delivery.take(10)
    assert record.headers == (("a", None),)
