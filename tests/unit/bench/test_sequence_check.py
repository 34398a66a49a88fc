"""Numbered records are held against what was sent: lost, duplicated, reordered."""

from hightide_bench.measuring.sequence_check import EXAMPLES_MAX, SequenceCheck, SequenceFindings


def found(read: list[int], sent: int, unsure: set[int] | None = None) -> SequenceFindings:
    check = SequenceCheck(1)
    for sequence in read:
        check.read(0, sequence)
    return check.result([sent], [unsure or set()])


def test_each_once_and_in_order_is_perfect() -> None:
    assert found([0, 1, 2], 3) == SequenceFindings(3, 0, 3, 0, 0, 0, 0)
    assert found([0, 1, 2], 3).is_perfect


def test_what_does_not_come_back_is_lost_in_the_middle_and_at_the_end() -> None:
    findings = found([0, 3], 6)
    assert (findings.lost, findings.is_perfect) == (4, False)
    assert findings.examples == ("4 of partition 0 are lost, from 1 to 5",)


def test_what_comes_late_is_reordered_and_not_lost() -> None:
    findings = found([0, 2, 1], 3)
    assert (findings.lost, findings.duplicated, findings.reordered) == (0, 0, 1)
    assert findings.examples == ("1 of partition 0 came after 2",)


def test_what_comes_again_is_duplicated_also_after_it_came_late() -> None:
    assert found([0, 0, 1], 2).duplicated == 1
    findings = found([0, 2, 1, 1], 3)
    assert (findings.reordered, findings.duplicated) == (1, 1)


def test_what_was_not_acknowledged_may_be_there_or_not() -> None:
    assert found([0, 2], 4, {1, 3}).is_perfect
    assert found([0, 1, 2, 3], 4, {1, 3}).is_perfect
    assert found([0, 2], 4, {1, 3}).acknowledged == 2


def test_partitions_have_numbers_of_their_own_and_records_of_others_are_foreign() -> None:
    check = SequenceCheck(2)
    check.read(0, 0)
    check.read(1, 0)
    check.read_foreign(1, 7)
    findings = check.result([1, 1], [set(), set()])
    assert (findings.lost, findings.foreign, findings.read) == (0, 1, 3)


def test_only_the_first_wrong_ones_are_named() -> None:
    assert len(found([0] * 50, 1).examples) == EXAMPLES_MAX
