"""Fetched batches as records and as Arrow, in any mixture."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hightide.batch.header import parse
from hightide.consuming.fetched_records import ARROW_SCHEMA, RecordsInDelivery, gather
from hightide.records import Record
from hightide.transport.notices import log_notice
from unit.sdk.consumer_bench import P0, ConsumerBench, batch


def fetched(*batches: bytes) -> tuple[ConsumerBench, RecordsInDelivery]:
    bench = ConsumerBench().started_at(parse(batches[0], 0).base_offset if batches else 0)
    bench.answer(bench.fetch(), *batches)
    return bench, RecordsInDelivery(bench.core, log_notice)


def begin(bench: ConsumerBench, in_delivery: RecordsInDelivery) -> None:
    chunk = bench.core.next_chunk()
    assert chunk is not None
    in_delivery.begin(chunk)


def test_records_carry_what_was_sent_and_are_frozen() -> None:
    bench, in_delivery = fetched(batch(5, 1, size_bytes=0))
    begin(bench, in_delivery)
    (record,) = in_delivery.take(10)
    assert record == Record("flights", 0, 5, 5, None, b"5", ())
    assert type(record) is Record
    assert record.timestamp == datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    assert not hasattr(record, "__dict__")


def test_polling_in_parts_and_iterating_go_on_where_the_other_stopped() -> None:
    bench, in_delivery = fetched(batch(0, 10))
    begin(bench, in_delivery)
    assert [record.offset for record in in_delivery.take(3)] == [0, 1, 2]
    rest = in_delivery.iterate()
    assert next(rest).offset == 3
    assert [record.offset for record in in_delivery.take(2)] == [4, 5]
    assert [record.offset for record in rest] == [6, 7, 8, 9]
    in_delivery.settle()
    assert bench.core.positions[P0].position == 10


def test_few_at_a_time_and_many_and_iterating_go_on_where_the_other_stopped() -> None:
    """Over the places at which records are made: 512 rows at a time."""
    bench, in_delivery = fetched(batch(0, 1_300))
    begin(bench, in_delivery)
    found: list[Record] = []
    while in_delivery.has_records:
        found += in_delivery.take(60, is_few=True)
        found += in_delivery.take(101) if in_delivery.has_records else []
        found += [record for _, record in zip(range(70), in_delivery.iterate(), strict=False)]
    assert [record.offset for record in found] == list(range(1_300))
    assert {type(record) for record in found} == {Record}


@pytest.mark.parametrize("is_few", [True, False])
def test_a_take_never_gives_more_than_was_asked_for(is_few: bool) -> None:
    bench, in_delivery = fetched(batch(0, 1_300))
    begin(bench, in_delivery)
    sizes = []
    while in_delivery.has_records:
        sizes.append(len(in_delivery.take(50, is_few=is_few)))
    assert max(sizes) == 50
    assert sum(sizes) == 1_300


def test_batches_of_a_partition_have_its_name_and_number_whatever_their_sizes() -> None:
    sizes = (5, 1, 1_000, 3)
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    bench, in_delivery = fetched(*(batch(start, size) for start, size in zip(starts, sizes, strict=True)))
    rows, _ = in_delivery.as_arrow(gather(bench.core))
    assert rows.column("topic").to_pylist() == ["flights"] * sum(sizes)
    assert rows.column("partition").to_pylist() == [0] * sum(sizes)


def test_arrow_goes_on_after_records() -> None:
    bench, in_delivery = fetched(batch(0, 10))
    begin(bench, in_delivery)
    in_delivery.take(4)
    in_delivery.give_up()
    rows, _ = in_delivery.as_arrow(gather(bench.core))
    assert rows.column("offset").to_pylist() == [4, 5, 6, 7, 8, 9]


def test_arrow_has_the_columns_in_order_and_the_values() -> None:
    bench, in_delivery = fetched(batch(7, 2, size_bytes=0))
    rows, _ = in_delivery.as_arrow(gather(bench.core))
    assert rows.schema.equals(ARROW_SCHEMA)
    assert rows.to_pylist() == [
        {
            "topic": "flights",
            "partition": 0,
            "offset": at,
            "timestamp": datetime(1970, 1, 1, 0, 0, 0, at, tzinfo=UTC),
            "key": None,
            "value": b"%d" % at,
        }
        for at in (7, 8)
    ]


def test_small_batches_are_gathered() -> None:
    bench, in_delivery = fetched(*(batch(at, 1) for at in range(100)))
    rows, _ = in_delivery.as_arrow(gather(bench.core))
    assert rows.column("offset").to_pylist() == list(range(100))


def test_nothing_is_an_empty_batch_with_the_same_schema() -> None:
    bench, in_delivery = fetched()
    rows, _ = in_delivery.as_arrow(gather(bench.core))
    assert (rows.num_rows, rows.schema) == (0, ARROW_SCHEMA)
    assert isinstance(rows, pa.RecordBatch)
