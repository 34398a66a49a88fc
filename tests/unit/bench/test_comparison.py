"""The comparer finds what is lost, duplicated, reordered or foreign, and nothing else."""

import random

from hightide_bench.measuring.comparison import Comparer, Comparison, RecordRow
from hypothesis import given
from hypothesis import strategies as st

A1, A2, A3 = RecordRow(b"a", b"1"), RecordRow(b"a", b"2"), RecordRow(b"a", b"3")
B1 = RecordRow(b"b", b"1")


def compare(
    written: list[RecordRow], read_back: list[RecordRow], unsure: tuple[RecordRow, ...] = ()
) -> Comparison:
    comparer = Comparer(written, unsure)
    for row in read_back:
        comparer.read_back(row)
    return comparer.result()


def test_the_same_rows_in_the_same_order_are_perfect() -> None:
    result = compare([A1, B1, A2], [A1, B1, A2])
    assert result == Comparison(produced=3, consumed=3, lost=0, duplicated=0, reordered=0, foreign=0)
    assert result.is_perfect


def test_rows_of_different_keys_may_change_places() -> None:
    assert compare([A1, B1, A2], [B1, A1, A2]).is_perfect


def test_a_row_that_does_not_come_back_is_lost() -> None:
    result = compare([A1, A2, A3], [A1, A3])
    assert (result.lost, result.consumed, result.is_perfect) == (1, 2, False)


def test_a_row_that_comes_back_twice_is_a_duplicate() -> None:
    result = compare([A1, A2], [A1, A2, A1])
    assert (result.duplicated, result.reordered, result.lost) == (1, 0, 0)
    assert not result.is_perfect


def test_a_row_after_a_later_one_of_its_key_is_reordered() -> None:
    result = compare([A1, A2, A3], [A1, A3, A2])
    assert (result.reordered, result.lost, result.duplicated) == (1, 0, 0)
    assert not result.is_perfect


def test_a_row_with_other_bytes_is_foreign_and_the_right_one_lost() -> None:
    result = compare([A1], [RecordRow(b"a", b"x")])
    assert (result.foreign, result.lost) == (1, 1)
    assert not result.is_perfect


def test_a_value_under_another_key_is_foreign() -> None:
    assert compare([A1], [RecordRow(b"b", b"1")]).foreign == 1


def test_equal_rows_stand_for_each_other() -> None:
    assert compare([A1, A1], [A1, A1]).is_perfect
    assert compare([A1, A1], [A1]).lost == 1
    assert compare([A1, A1], [A1, A1, A1]).duplicated == 1


def test_an_unsure_row_may_come_back_once_or_not_at_all() -> None:
    assert compare([A1], [A1], unsure=(A2,)).is_perfect
    assert compare([A1], [A1, A2], unsure=(A2,)).is_perfect
    assert compare([A1], [A1, A2, A2], unsure=(A2,)).duplicated == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=40), st.integers(0, 2**16))
def test_any_interleaving_of_keys_that_keeps_their_order_is_perfect(
    written: list[tuple[str, int]], seed: int
) -> None:
    rows = [RecordRow(key.encode(), bytes([value])) for key, value in written]
    by_key = {key: [row for row in rows if row.key == key] for key in {row.key for row in rows}}
    order = [row.key for row in rows]
    random.Random(seed).shuffle(order)
    assert compare(rows, [by_key[key].pop(0) for key in order]).is_perfect
