"""Records that a deserializer cannot read: no position passes them, or they are left out and counted."""

from collections.abc import Iterable

import pytest
from hightide.calls.notice import Notice
from hightide.consuming.fetched_records import RecordsInDelivery
from hightide.errors import DeserializationError, HightideError, SchemaRegistryError
from hightide.records import Record
from unit.sdk.consumer_bench import P0, ConsumerBench, batch


def delivery(
    *poison: int, error: type[HightideError] = DeserializationError, **settings: object
) -> tuple[ConsumerBench, RecordsInDelivery]:
    """Ten records that wait, of which some cannot be read."""
    bench = ConsumerBench(**settings).started_at(0)  # type: ignore[arg-type]
    bench.answer(bench.fetch(), batch(0, 10))
    notices: list[Notice] = []
    found = RecordsInDelivery(bench.core, notices.append)

    def deserialize(record: Record) -> object:
        if record.offset in poison:
            raise error(f"offset {record.offset} cannot be read")
        return record

    found.poison.deserialize = deserialize
    chunk = bench.core.next_chunk()
    assert chunk is not None
    found.begin(chunk)
    return bench, found


def offsets(records: Iterable[Record]) -> list[int]:
    return [record.offset for record in records]


def position(bench: ConsumerBench, found: RecordsInDelivery) -> int | None:
    found.settle()
    return bench.core.position_of(P0).position


def test_what_comes_before_a_record_that_cannot_be_read_is_returned_and_the_position_stays() -> None:
    bench, found = delivery(3)
    assert offsets(found.take(500)) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(DeserializationError, match="offset 3"):
            found.take(500)
        assert position(bench, found) == 3


def test_an_iteration_stops_at_it_too() -> None:
    bench, found = delivery(3)
    taken: list[Record] = []
    with pytest.raises(DeserializationError, match="offset 3"):
        taken.extend(found.iterate())
    assert offsets(taken) == [0, 1, 2]
    assert position(bench, found) == 3


def test_who_seeks_beyond_it_goes_on() -> None:
    bench, found = delivery(3)
    found.take(500)
    found.give_up()
    bench.core.seek(P0, 4)
    bench.answer(bench.fetch(), batch(0, 10))
    chunk = bench.core.next_chunk()
    assert chunk is not None
    found.begin(chunk)
    assert offsets(found.take(500)) == [4, 5, 6, 7, 8, 9]


def test_records_are_left_out_and_counted_if_the_policy_says_so() -> None:
    bench, found = delivery(0, 3, 9, on_corrupt_batch="skip")
    assert found.take(1) == [], "the first one is left out"
    assert offsets(found.take(500)) == [1, 2, 4, 5, 6, 7, 8]
    assert position(bench, found) == 10
    assert found.poison.skipped == {P0: 3}


def test_an_iteration_leaves_out_the_same_ones() -> None:
    bench, found = delivery(0, 3, 9, on_corrupt_batch="skip")
    assert offsets(found.iterate()) == [1, 2, 4, 5, 6, 7, 8]
    assert position(bench, found) == 10


def test_what_the_registry_is_to_blame_for_is_never_left_out() -> None:
    bench, found = delivery(3, error=SchemaRegistryError, on_corrupt_batch="skip")
    assert offsets(found.take(500)) == [0, 1, 2]
    with pytest.raises(SchemaRegistryError):
        found.take(500)
    assert position(bench, found) == 3
    assert found.poison.skipped == {}
