"""How small batches are put together before they are copied."""

import time
from collections.abc import Iterator

import pyarrow as pa
from hightide_cli.copying.batches import gathered


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": list(values)})


def test_ten_thousand_batches_of_one_record_are_gathered_in_time_and_in_order() -> None:
    began_s = time.process_time()
    batches = list(gathered((number % 2, rows(str(number))) for number in range(10_000)))
    assert time.process_time() - began_s < 10, "to add up all that waits for each batch takes minutes"
    for partition in (0, 1):
        mine = [value for of, batch in batches if of == partition for value in batch["value"].to_pylist()]
        assert mine == [str(number) for number in range(partition, 10_000, 2)]


def test_no_more_batches_wait_for_others_than_are_bounded_however_small_they_are() -> None:
    taken = 0

    def endless() -> Iterator[tuple[int, pa.RecordBatch]]:
        nonlocal taken
        while True:
            taken += 1
            yield 0, rows("x")

    next(gathered(endless()))
    assert taken == 4_096


def test_a_mebibyte_is_sent_without_waiting_for_more() -> None:
    batches = [(0, rows("x" * 600_000)) for _ in range(4)]
    assert [batch.num_rows for _, batch in gathered(batches)] == [2, 2]


def test_batches_of_another_form_are_kept_apart() -> None:
    other = pa.record_batch({"key": ["k"], "value": ["v"]})
    assert [batch.num_columns for _, batch in gathered([(0, rows("a")), (0, other)])] == [1, 2]
