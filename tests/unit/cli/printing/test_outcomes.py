"""One refused partition fails the command in one sentence; the others are told as done."""

import click
import pytest
from hightide import PartitionOutcome, TopicPartition
from hightide.errors import InvalidAssignmentError, UnknownPartitionError
from hightide_cli.printing.outcomes import fail_where_refused, partition_document

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
REFUSED = PartitionOutcome(
    THERE, InvalidAssignmentError("t-1: broker 9 is not known", topic="t", partition=1)
)


def test_what_was_done_fails_nothing() -> None:
    fail_where_refused([], "moves were")
    fail_where_refused([PartitionOutcome(HERE)], "moves were")


def test_one_refusal_is_told_as_it_is() -> None:
    with pytest.raises(click.ClickException, match="t-1: broker 9 is not known"):
        fail_where_refused([REFUSED], "moves were")


def test_of_several_the_first_refusal_stands_for_all() -> None:
    other = PartitionOutcome(TopicPartition("t", 9), UnknownPartitionError("no"))
    with pytest.raises(click.ClickException, match=r"2 of 3 moves were refused; t-1 \(and 1 more\): t-1:"):
        fail_where_refused([PartitionOutcome(HERE), REFUSED, other], "moves were")


def test_programs_get_the_code_of_the_error() -> None:
    assert partition_document(PartitionOutcome(HERE)) == {
        "topic": "t",
        "partition": 0,
        "error": None,
        "message": None,
    }
    assert partition_document(REFUSED)["error"] == "INVALID_ASSIGNMENT"
